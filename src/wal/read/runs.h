#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "wal/format.h"
#include "wal/intake.h"
#include "wal/recovery.h"

/// Reading a log by all cores: each segment's headers by one, then stretches of its frames. Private
/// to the log.

namespace breccia::wal {

/// Frames of one segment, one behind the other.
struct FrameRun {
  const std::byte* at = nullptr;  // the first one's header
  std::uint64_t begin = 0;        // its position
  std::uint64_t end = 0;
  std::uint64_t frames = 0;
  std::uint64_t entries = 0;
  std::uint64_t record_bytes = 0;

  /// The frames that end at `position` at the latest.
  [[nodiscard]] FrameRun up_to(std::uint64_t position) const;
  /// visit(header, where it lies) for each frame, until it says false.
  template <class Visit>
  void for_each(const Visit& visit) const {
    std::uint64_t position = begin;
    while (position < end) {
      const std::byte* const frame = at + (position - begin);
      FrameHeader header;
      std::memcpy(&header, frame, sizeof header);
      if (!visit(header, frame)) return;
      position += FrameLayout::of(header).end;
    }
  }
};

/// Where hop() goes.
struct HopRange {
  std::uint64_t first;  // where the segment's frames begin
  std::uint64_t from;   // of those whose records end below, only the header counts
  std::uint64_t to = std::numeric_limits<std::uint64_t>::max();  // an end of a frame, or beyond
  std::uint64_t run_bytes;  // of a run, but for what the last frame brings more
};

/// What the headers of a segment say.
struct SegmentHops {
  std::uint64_t begin = 0;  // where its chain begins: `first`, or `from` if it was taken up there
  std::uint64_t end = 0;    // where it ends: at its closing frame, if it closes
  bool closes = false;      // a closing frame that is whole leads on
  const char* fault = nullptr;  // of a closing frame that is not
  std::uint64_t synced = 0;     // all frames below were synced
  bool joins = false;           // a frame begins at `from`, or the chain ends there
  std::vector<FrameRun> runs;   // the frames that count
};

/// Hops from header to header of a segment.
/// Cost    a look at each header.
[[nodiscard]] SegmentHops hop(const SegmentView& segment, const HopRange& range);

/// How large runs are to be in a log of so many bytes: enough of them for many cores, and each
/// large enough that what is done for one does not count.
[[nodiscard]] std::uint64_t run_bytes_for(std::uint64_t log_bytes);

/// Where the reading of runs ended.
struct ReadEnd {
  std::size_t run = 0;         // their number: all were read
  std::uint64_t position = 0;  // else where the bad frame lies in this one
};

/// Calls read(run, part) for runs by many cores, which returns the position of the first bad frame
/// or run.end, and takes their parts in in order, those of frames before the first bad one.
/// Shape   `intake` may be null, and parts are then.
/// Bound   work space for a run and a half for each core.
[[nodiscard]] ReadEnd read_runs(
    std::span<const FrameRun> runs, LogIntake* intake, const SegmentTable::Places& log,
    const std::function<std::uint64_t(const FrameRun& run, LogIntake::Part* part)>& read);

/// Adds a run's records to a part; what is in the frames was checked.
void add_frames(const FrameRun& run, LogIntake::Part* part);

}  // namespace breccia::wal
