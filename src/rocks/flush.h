#pragma once

#include <functional>
#include <vector>

#include "blockcache/entry_cache.h"
#include "rocks/below.h"
#include "rocks/state.h"

namespace breccia::rocks {

/// Merges a family's runs into one that keeps what the tree needs.
using MergeRuns =
    std::function<Result<memtable::MemRunPtr>(const std::vector<memtable::MemRunPtr>& runs)>;

/// What a flush brought into the tree.
struct Flushed {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of the files
};

/// Writes all that `view` holds in runs and range deletions below position `applied` to SST files
/// of the tree, and ingests them with the watermark `applied`: all or nothing. Before that it
/// begins `change` and takes what they replace out of the view's cache; `publish` as for
/// Below::ingest.
/// Shape   the view's memtables hold nothing below `applied`.
/// Errors  MemoryLimit: may be tried again; Corruption: a merge operator failed; those of the tree.
/// Cost    a file per key range and family, written in parallel; per family with range deletions
///         one file of those, below the others.
Result<Flushed> flush_view(const memtable::View& view, std::uint64_t applied, int parts,
                           Below* below, const MergeRuns& merged,
                           blockcache::EntryCache::Change* change,
                           const std::function<void()>& publish);

}  // namespace breccia::rocks
