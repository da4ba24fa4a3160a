#pragma once

#include <functional>
#include <vector>

#include "cache/row_cache.h"
#include "ordered/state.h"
#include "tree/tree.h"

namespace breccia::ordered {

/// Merges a family's runs into one that keeps what the tree needs.
using MergeRuns = std::function<Result<MemRunPtr>(const std::vector<MemRunPtr>& runs)>;

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
Result<Flushed> flush_view(const View& view, std::uint64_t applied, int parts, tree::Tree* below,
                           const MergeRuns& merged, cache::RowCache::Change* change,
                           const std::function<void()>& publish);

}  // namespace breccia::ordered
