#include "slab/cuda/on_cuda.h"

#include "exec/cuda/instantiate.cuh"
#include "slab/backend_on.h"

namespace breccia::slab {

std::unique_ptr<Backend> make_cuda_backend(const exec::TenantPtr& tenant) {
  return exec::cuda::instantiate_on_cuda<BackendOn, Backend>(tenant);
}

}  // namespace breccia::slab
