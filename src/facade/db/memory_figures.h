#pragma once

#include <cstdint>

#include "ordered/view.h"
#include "wal/segment_table.h"

/// How much memtables and runs hold, for properties and estimates.

namespace breccia::facade {

/// Entries, with all versions of each key, and the bytes of their records in the log.
struct Amount {
  std::uint64_t entries = 0;
  std::uint64_t deletes = 0;
  std::uint64_t bytes = 0;

  Amount& operator+=(const Amount& other) {
    entries += other.entries;
    deletes += other.deletes;
    bytes += other.bytes;
    return *this;
  }
};

/// Bound   looks at 4,096 entries; where there are more, `deletes` and `bytes` are estimates.
[[nodiscard]] Amount amount_of_memtable(const ordered::FamilyView& family,
                                        const wal::SegmentTable& table);
[[nodiscard]] Amount amount_of_runs(const ordered::FamilyView& family,
                                    const wal::SegmentTable& table);

/// What memtable and runs hold of the keys from `begin` to below `end`.
/// Bound   as above, and 65,536 steps in the memtable.
[[nodiscard]] Amount amount_of_range(const ordered::FamilyView& family,
                                     const wal::SegmentTable& table, const Slice& begin,
                                     const Slice& end);

}  // namespace breccia::facade
