#include "hash/backend.h"

#include "exec/instantiate.h"
#include "hash/backend_on.h"
#include "hash/cuda/on_cuda.h"

namespace breccia::hash {

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
  auto backend = make_backend(device.value(), {.name = "hash"});
  BRECCIA_ASSERT(backend.ok());
  return backend.take();
}

}  // namespace breccia::hash
