#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "wal/files.h"

namespace breccia::wal {

/// One segment of the log: a range of positions and the file that holds it. Readers keep it alive;
/// with its last reference the file goes back to the log's pool.
struct Segment {
  std::uint64_t base = 0;  // a multiple of kLogWindowBytes
  std::uint64_t size = 0;  // likewise
  std::string path;
  std::unique_ptr<SegmentFile> file;
  bool keeps_file = false;  // the file stays where it is; set before the last reference goes

  [[nodiscard]] std::uint64_t end() const { return base + size; }
};
using SegmentPtr = std::shared_ptr<Segment>;

/// From log position to memory. Immutable: every view of the store pins one, and with it the bytes
/// that the view may read.
/// Threads any.
class SegmentTable {
 public:
  SegmentTable() = default;
  /// Shape   segments by ascending base, without gaps.
  explicit SegmentTable(std::vector<SegmentPtr> segments) : segments_(std::move(segments)) {
    if (segments_.empty()) return;
    first_window_ = segments_.front()->base / limits::kLogWindowBytes;
    for (const SegmentPtr& segment : segments_) {
      BRECCIA_ASSERT(segment->base == (first_window_ + windows_.size()) * limits::kLogWindowBytes);
      BRECCIA_ASSERT(segment->size > 0 && segment->size % limits::kLogWindowBytes == 0);
      const std::uint64_t windows = segment->size / limits::kLogWindowBytes;
      for (std::uint64_t window = 0; window < windows; ++window) {
        windows_.push_back(segment->file->image() + window * limits::kLogWindowBytes);
      }
    }
  }

  /// at() for a loop that stores bytes: what a copy of its own has stays in registers.
  /// Owner   the table lives longer.
  class Places {
   public:
    /// Shape   windows[count], of kLogWindowBytes each, from the window of that number on.
    Places(const std::byte* const* windows, std::uint64_t count, std::uint64_t first)
        : windows_(windows), count_(count), first_(first) {}
    [[nodiscard]] const std::byte* at(std::uint64_t position) const {
      const std::uint64_t window = position / limits::kLogWindowBytes - first_;
      BRECCIA_ASSERT(window < count_);
      return windows_[window] + position % limits::kLogWindowBytes;
    }

   private:
    const std::byte* const* windows_;
    std::uint64_t count_;
    std::uint64_t first_;
  };
  [[nodiscard]] Places places() const { return {windows_.data(), windows_.size(), first_window_}; }

  /// The byte at `position`, which must lie in a segment of this table.
  [[nodiscard]] const std::byte* at(std::uint64_t position) const { return places().at(position); }
  [[nodiscard]] const std::vector<SegmentPtr>& segments() const { return segments_; }

 private:
  std::vector<SegmentPtr> segments_;
  std::vector<std::byte*> windows_;
  std::uint64_t first_window_ = 0;
};
using SegmentTablePtr = std::shared_ptr<const SegmentTable>;

}  // namespace breccia::wal
