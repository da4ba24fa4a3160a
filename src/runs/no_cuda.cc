#if !defined(BRECCIA_HAVE_CUDA)

#include "runs/backend.h"

namespace breccia::runs {

Result<std::unique_ptr<Backend>> make_cuda_backend(std::uint64_t) {
  return Status::NotSupported("this build of Breccia has no CUDA backend");
}

}  // namespace breccia::runs

#endif
