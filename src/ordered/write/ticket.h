#pragma once

#include <breccia/family.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memtable/host_memtable.h"
#include "ordered/write/run_builder.h"
#include "wal/commit_queue.h"

namespace breccia::ordered {

/// One batch's writes on their way from their place in the log to the view.
struct WriteTicket : wal::Ticket {
  /// The batch's point operations as runs, of each family one or, in chunks, several, oldest first;
  /// none if its records go into the host memtables one by one.
  struct FamilyRuns {
    FamilyId family;
    bool has_merges;
    std::vector<BuiltRun> built;
  };
  std::vector<FamilyRuns> runs;
  /// The offsets of its range deletions among the frame's records, by family, if it has runs.
  std::vector<std::pair<FamilyId, std::uint64_t>> range_deletes;
  /// How far the publisher has come, which goes on there when it found no memory. A run that was
  /// published is null.
  struct Progress {
    std::uint32_t records = 0;
    std::uint64_t bytes = 0;
    FamilyId family = kDefaultFamily;  // of the next record
    std::vector<std::pair<FamilyId, memtable::Tombstone>> tombstones;
  };
  Progress published;
  /// Where its record goes in a memtable, if it has just one: looked for before its turn comes.
  struct Place {
    std::shared_ptr<memtable::HostMemtable> memtable;  // keeps the nodes that `at` names
    memtable::HostMemtable::Place at;
  };
  std::optional<Place> place;
  /// The view right after this batch was published, for its own reads; filled if `wants_view`.
  bool wants_view = false;
  ViewPtr view;
};

}  // namespace breccia::ordered
