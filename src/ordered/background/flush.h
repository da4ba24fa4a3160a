#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "cache/row_cache.h"
#include "ordered/state.h"
#include "ordered/tree_filters.h"
#include "tree/tree.h"

namespace breccia::ordered {

/// Merges a family's runs into one that keeps what the tree needs.
using MergeRuns = std::function<Result<MemRunPtr>(const std::vector<MemRunPtr>& runs)>;

/// The versions of one key that a flush can keep where its merge operator does not combine them. It
/// writes a file for each, all into level 0.
inline constexpr std::size_t kMergeStackMax = 256;

/// What a flush brought into the tree.
struct Flushed {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of the files
};

/// Where a flush goes: the tree, each family as so many files at most, and who knows its keys.
struct FlushInto {
  tree::Tree* below;
  int parts;
  TreeFilters* filters;
};

/// Writes all that `view` holds in runs and range deletions below position `applied` to SST files
/// of the tree, and ingests them with the watermark `applied`: all or nothing. Before that it
/// begins `change`, takes what they replace out of the view's cache, and adds their keys to the
/// filters; `publish` as for Tree::ingest.
/// Shape   the view's memtables hold nothing below `applied`.
/// A key whose operands do not combine, since the merge operator fails, goes into the tree as it
/// is, its base below its operands: reads of it fail as before. So do operands without a merge
/// operator, if nothing lies below them. A compaction that meets such a key's base fails and stops
/// the tree, as any RocksDB, unless something newer hides it.
/// Errors  MemoryLimit: may be tried again; InvalidArgument: operands above something, and no merge
///         operator; Corruption: more than kMergeStackMax versions of a key that do not combine;
///         those of the tree.
/// Cost    a file per key range and family, written in parallel; per family with range deletions
///         one file of those, below the others; where operands do not combine, one above the others
///         for each version of such a key but its oldest.
Result<Flushed> flush_view(const View& view, std::uint64_t applied, const FlushInto& into,
                           const MergeRuns& merged, cache::RowCache::Change* change,
                           const std::function<void()>& publish);

}  // namespace breccia::ordered
