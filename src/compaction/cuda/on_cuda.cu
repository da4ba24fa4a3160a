#include "compaction/cuda/on_cuda.h"

#include "compaction/backend_on.h"
#include "exec/cuda/instantiate.cuh"

namespace breccia::compaction {

std::unique_ptr<Backend> make_cuda_backend(const exec::TenantPtr& tenant) {
  return exec::cuda::instantiate_on_cuda<BackendOn, Backend>(tenant);
}

}  // namespace breccia::compaction
