#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

/// Writing ranges of memory to a file through io_uring, or pwrite where there is none.
/// Private to the log.

namespace breccia::wal {

/// Pieces that a ring has in flight, and their size.
inline constexpr unsigned kRingDepth = 32;
inline constexpr std::uint64_t kRingPieceBytes = 1ULL << 20;

/// Threads any.
class Writer {
 public:
  virtual ~Writer() = default;
  /// Writes bytes [from, from + bytes) to `fd` at `offset`, all of them.
  /// Errors  NoSpace, IOError: how much was written is unknown. `path` is for the message.
  [[nodiscard]] virtual Status write(int fd, const std::byte* from, std::uint64_t offset,
                                     std::uint64_t bytes, const std::string& path) = 0;
};

std::unique_ptr<Writer> make_pwrite_writer();
/// Null if the kernel or the sandbox denies io_uring.
std::unique_ptr<Writer> make_ring_writer();

/// The Status for `error` (errno) met while doing `what` to `path`. It tells of the error also
/// where there is no memory to say more: a failed sync must not look like one that may be tried
/// again.
Status io_status(const char* what, const std::string& path, int error);

}  // namespace breccia::wal
