#pragma once

#include <vector>

#include "exec/backend.h"
#include "memtable/view.h"
#include "wal/log.h"

namespace breccia::rocks {

/// Turns the frames that a log replayed, in order, into runs, newest first.
/// A large frame with descriptors is in run order already; neighbouring smaller frames are sorted
/// together, so that there are at most some twenty runs, or one per 2^20 entries.
/// `applied` is the end of what lies in the tree below, the begin of the first run.
/// Errors  of the backend.
/// Cost    reads each record once; runs are built in parallel.
/// Source  [hrocks] section 6.5: the log's descriptors give every entry its place again.
[[nodiscard]] Result<std::vector<memtable::MemRunPtr>> recover_runs(
    const std::vector<wal::RecoveredFrame>& frames, std::uint64_t applied, exec::Backend& backend);

}  // namespace breccia::rocks
