#pragma once

#include <memory>

#include "base/assert.h"
#include "exec/cuda/cuda_device.cuh"
#include "exec/cuda/cuda_sort.cuh"

namespace breccia::exec::cuda {

/// As exec/instantiate.h, for a tenant of a GPU.
template <template <class> class Impl, class Interface>
std::unique_ptr<Interface> instantiate_on_cuda(const TenantPtr& tenant) {
  BRECCIA_ASSERT(tenant->device().kind() == DeviceKind::kCuda);
  return std::make_unique<Impl<CudaTenant>>(std::static_pointer_cast<CudaTenant>(tenant));
}

}  // namespace breccia::exec::cuda
