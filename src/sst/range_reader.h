#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

/// Reading ranges of files into memory of the caller's.

namespace breccia::sst {

/// Where bytes of a file go. Nothing is owned.
struct FileRange {
  int file = -1;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  char* to = nullptr;
  const std::string* path = nullptr;  // for messages
  bool is_in_memory = false;          // the file has no other medium: see lies_in_memory()
};

/// Reads ranges of any files, in pieces, many of them at once: through io_uring or, where the
/// kernel or a sandbox denies that, and from a piece that failed on, one after the other. What lies
/// in memory the calling thread copies itself: of such files the ring would hand each piece to a
/// thread of the kernel, at several times the cost.
/// Threads one owner.
class RangeReader {
 public:
  RangeReader();
  ~RangeReader();
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;

  /// Whether pieces are read at once.
  [[nodiscard]] bool has_ring() const { return ring_ != nullptr; }

  /// Reads all of them.
  /// Errors  IOError: a file cannot be read; Corruption: it ends before. What the memory holds is
  ///         unknown then, and nothing writes to it any more.
  Status read(std::span<const FileRange> ranges);

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

/// Whether a file is on tmpfs or ramfs.
[[nodiscard]] bool lies_in_memory(int file);

/// Reads one range by the calling thread.
/// Errors  as RangeReader::read.
Status read_range(const FileRange& range);

}  // namespace breccia::sst
