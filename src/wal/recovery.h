#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "wal/format.h"
#include "wal/intake.h"
#include "wal/log_options.h"

/// What a set of segment images says about the log: a pure function, so that tests can feed it
/// every damage there is. Private to the log; the rules stand in docs/format/wal.md.
///
///   1. check that the segments follow each other and carry intact headers of one store
///   2. hop from frame header to frame header, in all segments at once (runs.h), and join what
///   closing
///      frames lead to
///   3. verify all frames at or above `from` (in parallel); the first bad one ends the chain, or is
///      damage if it was sealed as it is. Those before it go to the intake, if there is one
///   4. behind the end, look for a header that says the lost part was synced: then data is damaged,
///      else the end is the torn tail that a crash leaves

namespace breccia::wal {

/// A segment as it was read. Its name gave `base`, its file's length `size`.
struct SegmentView {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  const std::byte* image = nullptr;
  std::string path;
  std::uint64_t used = size;  // the image's bytes from here on are zero

  [[nodiscard]] std::uint64_t end() const { return base + size; }
  [[nodiscard]] const std::byte* at(std::uint64_t position) const {
    return image + (position - base);
  }
};

struct LogScan {
  /// Positions of a segment.
  struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  std::uint64_t store_id = 0;
  std::vector<Extent> chain;  // where frames of the chain lie, closing ones too, by segment
  std::vector<const std::byte*> frames;  // headers of the verified frames, without an intake
  std::uint64_t frame_count = 0;         // of these or those it took in, and what is in them
  std::uint64_t entries = 0;
  std::uint64_t record_bytes = 0;
  std::size_t last_segment = 0;  // index of the segment in which the chain ends
  bool last_is_empty = false;    // no frame, not even one below `from`, lies in it
  std::uint64_t end = 0;         // position at which the chain ends
  std::uint64_t synced = 0;      // all frames below were synced, by what headers say
  std::uint64_t dropped_bytes = 0;
  std::string message;  // a sentence if something was dropped
  bool joins = false;   // the chain leads to `from`, and was not taken up there
};

/// Shape   segments, at least one, by ascending base; the last is the log's newest.
/// Errors  Corruption: as Log::open says; the message names file and offset and what to do.
/// Bound   every length is checked before it is used; reads stay inside the images.
/// Cost    one pass over the frames at or above `from`, and one over what lies between the chain's
///         end and each segment's `used`.
Result<LogScan> scan_log(std::span<const SegmentView> segments, std::uint64_t from);
/// The same for an intake, which takes the records in while the frames are verified.
Result<LogScan> scan_log(std::span<const SegmentView> segments, std::uint64_t from,
                         LogIntake* intake);
/// `run_bytes`: of the frames of one part (runs.h).
Result<LogScan> scan_log(std::span<const SegmentView> segments, std::uint64_t from,
                         LogIntake* intake, std::uint64_t run_bytes);

/// The frames of a segment that begin in [from, to), in order, where none that was written there is
/// missing. *begin: `from`, or the end of the frame that reaches over it.
/// Shape   from < to, in the segment, or its end; none is written there meanwhile.
/// Errors  Corruption: a frame there, or on the way there, is damaged or missing, or reaches over
///         `to`.
/// Cost    one pass over these frames, and one over the headers before them.
Result<std::vector<RecoveredFrame>> whole_frames(const SegmentView& segment, std::uint64_t from,
                                                 std::uint64_t to, std::uint64_t* begin);

/// A frame that was verified, as a replay sees it. `at`: its header.
RecoveredFrame recovered_frame(const std::byte* at);

/// Checks a segment's header against its file.
Status check_segment(const SegmentView& segment, std::uint64_t* store_id, std::uint64_t* first);

/// Reads the header at `position` of a segment whose header is intact; false if no whole frame can
/// begin there.
bool header_at(const SegmentView& segment, std::uint64_t position, FrameHeader* header);

}  // namespace breccia::wal
