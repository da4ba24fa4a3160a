#pragma once

#include <memory>

#include "exec/fake/fake_device.h"
#include "exec/sim/sim_device.h"
#include "runs/backend.h"

namespace breccia::testing {

/// The verbs on runs as the only tenant of `device`.
inline std::shared_ptr<runs::Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = runs::make_backend(device, {.name = "test"});
  BRECCIA_ASSERT(backend.ok());
  return backend.take();
}
inline std::shared_ptr<runs::Backend> make_simulator_backend(std::uint64_t seed) {
  return backend_on(exec::sim::make_simulator_device(seed));
}
inline std::shared_ptr<runs::Backend> make_fake_backend(exec::FakeFaults* faults) {
  return backend_on(exec::fake::make_fake_device(faults));
}

}  // namespace breccia::testing
