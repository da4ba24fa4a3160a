#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "wal/segment_table.h"

namespace breccia::wal {

/// Some records of a frame, whole ones, one behind the other.
struct RecordSpan {
  std::uint64_t position;  // of the first one
  const std::byte* at;
  std::uint64_t bytes;
  std::uint32_t count;
  bool only_default_points;  // as RecoveredFrame's
};

/// Takes in the records of a log while the log is read: by all cores, while the records are in
/// their caches, and without a list of frames.
class LogIntake {
 public:
  /// What some frames' records become. Threads one owner.
  class Part {
   public:
    virtual ~Part() = default;
    /// Records that follow those that came before. They tile, but what their frame's checksum says
    /// may not be known yet: a part with a frame that is wrong is thrown away.
    /// Errors  std::bad_alloc.
    virtual void add(const RecordSpan& records) = 0;
  };

  virtual ~LogIntake() = default;
  /// An empty part, to which so many records will be added.
  /// Threads any number, also beside take_in().
  /// Errors  std::bad_alloc.
  [[nodiscard]] virtual std::unique_ptr<Part> make_part(std::uint64_t records) = 0;
  /// Takes in a part, all of whose frames are right. An opening may still fail behind it, for what
  /// it finds further on.
  /// Order   the log's, one at a time.
  /// Errors  std::bad_alloc; others are the intake's to keep.
  virtual void take_in(std::unique_ptr<Part> part, const SegmentTable::Places& log) = 0;
};

}  // namespace breccia::wal
