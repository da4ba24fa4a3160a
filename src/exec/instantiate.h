#pragma once

#include <memory>

#include "base/assert.h"
#include "exec/fake/fake_device.h"
#include "exec/host/host_device.h"
#include "exec/sim/sim_device.h"

/// How a module comes to its code for a device. It writes an interface, and a template
/// `Impl<T>` over a tenant's type T that takes a shared_ptr<T>; `tenant->executor()` gives it an
/// executor for one call (exec/executor.h). This header makes the Impl for what runs on CPUs; a
/// .cu file of the module's does the same for CUDA (exec/cuda/instantiate.cuh).

namespace breccia::exec {

template <template <class> class Impl, class Interface>
std::unique_ptr<Interface> instantiate_on_cpus(const TenantPtr& tenant) {
  const auto make = [&]<class T>(const T*) -> std::unique_ptr<Interface> {
    return std::make_unique<Impl<T>>(std::static_pointer_cast<T>(tenant));
  };
  switch (tenant->device().kind()) {
    case DeviceKind::kHost:
      return make(static_cast<host::HostTenant*>(nullptr));
    case DeviceKind::kSimulator:
      return make(static_cast<sim::SimTenant*>(nullptr));
    case DeviceKind::kFake:
      return make(static_cast<fake::FakeTenant*>(nullptr));
    case DeviceKind::kCuda:
      break;
  }
  BRECCIA_ASSERT(false);
  return nullptr;
}

}  // namespace breccia::exec
