#pragma once

#include <breccia/family.h>

#include <map>
#include <vector>

#include "ordered/view.h"
#include "runs/backend.h"
#include "wal/log.h"

namespace breccia::ordered {

/// What the log holds of one column family.
struct RecoveredFamily {
  std::vector<MemRunPtr> runs;  // newest first
  std::vector<memtable::Tombstone> tombstones;
};
using RecoveredFamilies = std::map<FamilyId, RecoveredFamily>;

/// Turns the frames that a log replayed, in order, into runs and range deletions of each family.
/// A large frame with descriptors is in run order already; neighbouring smaller frames are sorted
/// together, so that a family has at most some twenty runs, or one per 2^20 entries.
/// `applied` is the end of what lies in the tree below, the begin of each family's first run.
/// Errors  of the backend.
/// Cost    reads each record once; runs are built in parallel.
/// Source  [hrocks] section 6.5: the log's descriptors give every entry its place again.
[[nodiscard]] Result<RecoveredFamilies> recover_families(
    const std::vector<wal::RecoveredFrame>& frames, std::uint64_t applied, runs::Backend& backend);

}  // namespace breccia::ordered
