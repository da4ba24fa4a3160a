#pragma once

#include <breccia/family.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ordered/view.h"
#include "wal/commit_queue.h"

namespace breccia::ordered {

/// One batch's writes on their way from their place in the log to the view.
struct WriteTicket : wal::Ticket {
  /// The batch's point operations as runs, one per family; none if its records go into the host
  /// memtables one by one.
  struct FamilyRun {
    FamilyId family;
    runs::RunPtr run;
    const std::uint32_t* descriptors;  // of this family in the frame, null if it has none
    bool has_merges;
    /// The run's order where there are no descriptors and the host cannot read the run.
    std::shared_ptr<const std::vector<std::uint64_t>> payloads;
  };
  std::vector<FamilyRun> runs;
  /// The offsets of its range deletions among the frame's records, by family, if it has runs.
  std::vector<std::pair<FamilyId, std::uint64_t>> range_deletes;
  /// The view right after this batch was published, for its own reads; filled if `wants_view`.
  bool wants_view = false;
  ViewPtr view;
};

}  // namespace breccia::ordered
