#pragma once

#include <breccia/store_options.h>

#include <string>

#include "exec/device.h"

namespace breccia::exec {

/// The device that `options` ask for: backend, device, simulator_seed. Where any will do and there
/// is no GPU it is the host, and *why_none says what was missing; else *why_none is as before.
/// Errors  with BackendChoice::kCuda, those of open_device.
Result<DevicePtr> choose_device(const StoreOptions& options, std::string* why_none);

}  // namespace breccia::exec
