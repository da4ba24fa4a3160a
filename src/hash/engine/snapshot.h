#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "hash/engine/live.h"
#include "pmem/disk.h"
#include "wal/files.h"

namespace breccia::hash {

/// Where a snapshot goes.
struct SnapshotPlace {
  std::shared_ptr<wal::Files> files;
  std::shared_ptr<pmem::Disk> disk;
  std::string folder;
  std::uint64_t segment_bytes = 0;  // of its log
  std::uint64_t roll_bytes = 0;     // likewise
  std::size_t prepare_ahead = 1;    // likewise
};

/// Writes records that count as a store of its own: a log that has nothing else, and then the step
/// and the mark. A folder without a mark is no store, so what a crash leaves is none.
/// Errors  InvalidArgument: the folder is there; those of LiveRecords; NoSpace, IOError: what was
///         written is of no use.
/// Cost    what is written stays in memory up to a segment; one sync a segment.
[[nodiscard]] Status write_snapshot(const SnapshotPlace& place, LiveRecords* records,
                                    std::optional<std::uint64_t> step);

}  // namespace breccia::hash
