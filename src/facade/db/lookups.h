#pragma once

#include <rocksdb/options.h>

#include <cstddef>
#include <functional>

#include "facade/db/core.h"

/// Single and batched lookups.

namespace breccia::facade {

/// The value of `key` as `seen` has it. *from_tree: whether the answer needed the tree.
/// Errors  as rocksdb::DB::Get; Incomplete: the tree would have to read a file, and the options
///         forbid it.
Status get(const Core& core, const rocksdb::ReadOptions& options, const Seen& seen,
           const Slice& key, rocksdb::PinnableSlice* value, bool* from_tree);

/// True if the value of `key` is the tree's: nothing above it counts.
[[nodiscard]] bool is_in_tree(const Seen& seen, const Slice& key);

/// The options for a read of the tree below `seen`.
[[nodiscard]] rocksdb::ReadOptions tree_options(const rocksdb::ReadOptions& options,
                                                const Seen& seen);

/// All merge operands of `key`, oldest first; a value below them is the first.
/// Shape   operands of options->expected_max_number_of_operands elements.
/// Errors  as rocksdb::DB::GetMergeOperands.
Status get_merge_operands(const Core& core, const rocksdb::ReadOptions& read_options,
                          const Seen& seen, const Slice& key,
                          rocksdb::GetMergeOperandsOptions* options,
                          rocksdb::PinnableSlice* operands, int* operand_count);

/// The keys of one MultiGet.
struct Lookups {
  std::size_t count;
  std::function<const rocksdb::ColumnFamilyHandle*(std::size_t i)> handle;
  const Slice* keys;
  /// Which come first where options.value_size_soft_limit ends the reading: the smaller keys, as in
  /// RocksDB's batched functions, or those that stand first.
  bool by_key;
};

/// Runs the lookups as one batch, all at one point in time. Values stay in the batch's memory for
/// as long as one of them is pinned.
/// Shape   values and statuses of lookups.count elements.
/// Errors  per lookup. A wrong handle, snapshot or option fails all: nothing was read.
void multi_get(const Core& core, const rocksdb::ReadOptions& options, const Lookups& lookups,
               rocksdb::PinnableSlice* values, Status* statuses);

}  // namespace breccia::facade
