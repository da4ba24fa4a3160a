#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace breccia::exec {

/// Rows of bytes on both sides of a bus: one behind the other on the host, `stride` apart on the
/// device.
struct BusRows {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
  std::size_t count = 0;
  std::size_t width = 0;
  std::size_t stride = 0;  // width at least
};
enum class BusWay { kToHost, kToDevice };

/// Memory of the host that a backend can reach at full speed (pinned where there is a device).
/// Threads any.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  /// Errors  nullptr: none left. Alignment is 64 at least.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) = 0;
  /// True if a device reads it over a bus: what a large batch brings is then not for the host's
  /// caches.
  [[nodiscard]] virtual bool is_beside_device() const { return false; }
  /// Copies rows between this memory and that of the device beside it, in the order of `stream`, a
  /// stream of the device's interface of which the caller of the library is the owner.
  /// Order   done on return.
  /// Errors  NotSupported: there is no device; IOError: the device.
  [[nodiscard]] virtual Status copy_rows(BusWay /*way*/, const BusRows& /*rows*/,
                                         void* /*stream*/) {
    return Status::NotSupported("arrays on a device, and a batch without one",
                                "make the batch with Store::NewBatch of a store on a GPU");
  }
};

/// Host memory as malloc gives it, for callers without a device.
HostMemory& plain_host_memory();
/// The same as a shared pointer, for those that keep theirs alive.
std::shared_ptr<HostMemory> shared_plain_host_memory();

}  // namespace breccia::exec
