#pragma once

#include <functional>

#include "sst/table.h"

namespace breccia::sst {

/// What lies in a table.
struct TableCounts {
  std::uint64_t blocks = 0;
  std::uint64_t entries = 0;    // range deletions among them
  std::uint64_t deletions = 0;  // of every kind
  std::uint64_t merges = 0;
  std::uint64_t range_deletions = 0;
  std::uint64_t key_bytes = 0;  // with tags
  std::uint64_t value_bytes = 0;
  bool has_known_order = true;  // false: its comparator is not known here, so no order was checked
};

/// What sees a table's entries in their order; false ends the walk.
using EntryVisitor = std::function<bool(const InternalKey& key, const Slice& value)>;

/// Shows all entries but range deletions; `data_blocks` of them are behind it when it ends.
/// Errors  those of Table::read_data; Corruption: an entry of an unknown type, a key without tag.
Status visit_entries(const Table& table, const EntryVisitor& visit);
/// Shows the range deletions: from the key, up to the value.
/// Errors  likewise.
Status visit_range_deletions(const Table& table, const EntryVisitor& visit);

/// Reads all of a table: every block's checksum, all entries and their order, what the index and
/// the properties say of them, and that nothing lies between the blocks.
/// `progress` is told how many bytes of data blocks are behind, and may be empty.
/// Errors  Corruption: the first thing that is wrong; NotSupported; MemoryLimit.
/// Threads any.
Status check_table(const Table& table, const std::function<void(std::uint64_t)>& progress,
                   TableCounts* counts);

}  // namespace breccia::sst
