#include "residency/backend.h"

#include "exec/instantiate.h"
#include "residency/backend_on.h"
#include "residency/cuda/on_cuda.h"

namespace breccia::residency {

Result<std::shared_ptr<Backend>> make_backend(const exec::DevicePtr& device,
                                              exec::TenantOptions options) {
  BRECCIA_TAKE(const exec::TenantPtr tenant, device->admit(std::move(options)));
#if defined(BRECCIA_HAVE_CUDA)
  if (device->kind() == exec::DeviceKind::kCuda) {
    return std::shared_ptr<Backend>(make_cuda_backend(tenant));
  }
#endif
  return std::shared_ptr<Backend>(exec::instantiate_on_cpus<BackendOn, Backend>(tenant));
}

}  // namespace breccia::residency
