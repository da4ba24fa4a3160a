#include "runs/backend.h"

#include "exec/instantiate.h"
#include "runs/backend_on.h"
#include "runs/cuda/on_cuda.h"

namespace breccia::runs {

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

std::shared_ptr<Backend> make_host_backend() {
  auto device = exec::open_device(exec::DeviceKind::kHost, 0);
  BRECCIA_ASSERT(device.ok());
  auto backend = make_backend(device.value(), {.name = "runs"});
  BRECCIA_ASSERT(backend.ok());
  return backend.take();
}

}  // namespace breccia::runs
