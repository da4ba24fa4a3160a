#pragma once

#include <cstddef>
#include <memory>

namespace breccia::exec {

/// Memory of the host that a backend can reach at full speed (pinned where there is a device).
/// Threads any.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  /// Errors  nullptr: none left. Alignment is 64 at least.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) = 0;
};

/// Host memory as malloc gives it, for callers without a device.
HostMemory& plain_host_memory();
/// The same as a shared pointer, for those that keep theirs alive.
std::shared_ptr<HostMemory> shared_plain_host_memory();

}  // namespace breccia::exec
