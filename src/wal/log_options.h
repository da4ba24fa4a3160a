#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "wal/files.h"
#include "wal/format.h"

/// What a log is opened with, and what it tells then of what it found.

namespace breccia::wal {

/// The hold that a log is opened with, if LogOptions says so.
inline constexpr std::uint64_t kOpeningHold = 1;

struct LogOptions {
  std::string dir;
  std::uint64_t segment_bytes = limits::kLogWindowBytes;
  /// Bytes of segments to have ready in the pool when open() returns.
  std::uint64_t preallocate_bytes = 0;
  std::shared_ptr<Files> files;
  /// The log's identity: what a new log gets and one that is found must bear. 0: a new log draws
  /// one, and any is taken.
  std::uint64_t store_id = 0;
  /// Called for each segment image when it appears and before it goes, so that a device can adopt
  /// it; an image that a recycled file keeps is not announced again. May be empty.
  /// Threads any, the log's own among them; on_unmap also after the log's end, with the last
  ///         reference to a segment.
  std::function<void(std::byte* image, std::uint64_t bytes)> on_map;
  std::function<void(std::byte* image)> on_unmap;
  /// Bytes of the log, counted from its end, whose files are kept when they are released, for
  /// segment_at().
  std::uint64_t keep_bytes = 0;
  /// How far the log reaches at least, as somebody has written down; 0: nobody has. One that ends
  /// before is Corruption, and nothing was changed in it.
  std::uint64_t needed_end = 0;
  /// What was released from this position on and still lies in the folder is held (Log::add_hold),
  /// under the number kOpeningHold; 0: nothing is.
  std::uint64_t hold_from = 0;
  /// A segment counts as full when this many bytes of it are used; 0: when nothing more fits.
  std::uint64_t roll_bytes = 0;
  /// Segments that a thread of the log's own makes ahead when the newest one is half full; more
  /// where rolls wait for them all the same. 0: there is no such thread.
  std::size_t prepare_ahead = 1;
};

/// A committed frame as recovery finds it.
struct RecoveredFrame {
  std::uint64_t records_position;
  const std::byte* records;
  std::uint64_t record_bytes;
  std::uint32_t record_count;
  const std::uint32_t* descriptors;  // null if the frame has none
  bool only_default_points;          // point operations of the default family, nothing else
};

/// What recovery found.
struct LogRecovery {
  std::uint64_t end = 0;  // position behind the last committed frame
  std::uint64_t frames = 0;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t dropped_bytes = 0;  // from `end` to the last byte that looks written
  std::string message;
  /// True if frames below `from` lie in front of it without a gap, by their headers: nothing that
  /// was written is missing there.
  bool joins = false;
};

}  // namespace breccia::wal
