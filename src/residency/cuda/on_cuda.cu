#include "exec/cuda/instantiate.cuh"
#include "residency/backend_on.h"
#include "residency/cuda/on_cuda.h"

namespace breccia::residency {

std::unique_ptr<Backend> make_cuda_backend(const exec::TenantPtr& tenant) {
  return exec::cuda::instantiate_on_cuda<BackendOn, Backend>(tenant);
}

}  // namespace breccia::residency
