#include "exec/choose.h"

#include "exec/sim/sim_device.h"

namespace breccia::exec {

Result<DevicePtr> choose_device(const StoreOptions& options, std::string* why_none) {
  if (options.backend == BackendChoice::kSimulator) {
    return sim::make_simulator_device(options.simulator_seed);
  }
  if (options.backend != BackendChoice::kHost) {
    auto device = open_device(DeviceKind::kCuda, options.device);
    if (device.ok() || options.backend == BackendChoice::kCuda) return device;
    *why_none = device.status().ToString();
  }
  return open_device(DeviceKind::kHost, 0);
}

}  // namespace breccia::exec
