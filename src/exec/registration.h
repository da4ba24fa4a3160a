#pragma once

#include <breccia/batch.h>

#include <cstddef>

#include "exec/device.h"

namespace breccia::exec {

/// Lets a device reach memory of the user's until the last copy of `registration` goes: what
/// Store::RegisterMemory does.
/// Errors  MemoryLimit: the device cannot reach it.
Status register_memory(const DevicePtr& device, void* memory, std::size_t bytes,
                       MemoryRegistration* registration);

}  // namespace breccia::exec
