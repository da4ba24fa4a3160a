#pragma once

#include <rocksdb/slice.h>

#include <cstdint>

#include "base/result.h"
#include "ordered/view.h"

/// What one key is, from the versions that a view holds of it: puts, deletions, range deletions and
/// merge operands, and the tree below them.
///
/// The newest version counts. A merge operand needs all operands below it and the first version
/// that is none, its base; where memory holds no base, the tree does.

namespace breccia::ordered {

/// The value of `key` in `family` as of some log position.
/// `found`: the payload of the key's newest version below that position in the family's memtable
/// and runs, or runs::kNotFound. `covered`: the newest range deletion below it that covers the key
/// (FamilyView::covering).
/// `from_tree` is set to true if the tree had to be read, else left alone; may be null.
/// Errors  NotFound; InvalidArgument: operands without a merge operator; Corruption: the merge
///         operator failed; those of the tree.
/// Cost    as ordered::find_one for each operand.
Status read_version(const View& view, const FamilyView& family, const Slice& key,
                    std::uint64_t found, std::uint64_t covered, rocksdb::PinnableSlice* value,
                    bool* from_tree);

/// read_version as of `bound` for a key that was not searched yet.
Status read_key(const View& view, const FamilyView& family, const Slice& key, std::uint64_t bound,
                rocksdb::PinnableSlice* value);

/// Combines `operands`, oldest first, with `base` (null: there is none).
/// Errors  InvalidArgument: no merge operator; Corruption: it failed. As RocksDB's.
Status full_merge(const FamilyView& family, const Slice& key, const Slice* base,
                  const std::vector<Slice>& operands, std::string* value);

/// The value of the record at `payload`.
[[nodiscard]] inline Slice value_at(const wal::SegmentTable& table, std::uint64_t payload) {
  const std::byte* const record = table.at(record::position_of(payload));
  return {record::record_value(record), record::record_header(record).value_bytes};
}

}  // namespace breccia::ordered
