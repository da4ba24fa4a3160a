#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>

namespace breccia::base {

/// Bytes of memory that the machine has.
inline std::uint64_t machine_memory_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// The least that a control group of this process, or one above it, allows of memory; none: no
/// group says anything. `groups` is the file that names them (/proc/self/cgroup), `mount` where
/// they are (/sys/fs/cgroup), version 1 or 2 or both.
[[nodiscard]] std::optional<std::uint64_t> cgroup_memory_max(const std::string& groups,
                                                             const std::string& mount);

/// Bytes of memory that this process may use: the machine's, or what its control groups allow when
/// this is asked first, if that is less.
[[nodiscard]] std::uint64_t usable_memory_bytes();

}  // namespace breccia::base
