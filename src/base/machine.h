#pragma once

#include <unistd.h>

#include <cstdint>

namespace breccia::base {

/// Bytes of memory that the machine has.
inline std::uint64_t machine_memory_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace breccia::base
