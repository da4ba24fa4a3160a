#pragma once

#include <breccia/status.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <cstddef>
#include <string>

namespace breccia {

/// rocksdb::WriteBatchWithIndex for a breccia::Rocks.
///
/// RocksDB's own may be used with a Rocks, too, but for one function: its MultiGetFromBatchAndDB
/// reads the tree below the database that it is given, and misses what was not flushed. Its
/// GetFromBatchAndDB asks for that tree where it merges, which turns the entry cache off
/// (Rocks::GetRootDB).
///
/// Threads as rocksdb's: any number may read at once while nobody writes to the batch.
class WriteBatchWithIndex : public rocksdb::WriteBatchWithIndex {
 public:
  using rocksdb::WriteBatchWithIndex::WriteBatchWithIndex;

  /// Looks up a key in this batch, and in `db` if the batch does not settle it; the batch's merge
  /// operands are applied to what the database has.
  /// Shape   handle may be null: the default family.
  /// Errors  as rocksdb's.
  Status GetFromBatchAndDB(rocksdb::DB* db, const rocksdb::ReadOptions& options,
                           rocksdb::ColumnFamilyHandle* handle, const Slice& key,
                           rocksdb::PinnableSlice* value);
  Status GetFromBatchAndDB(rocksdb::DB* db, const rocksdb::ReadOptions& options,
                           rocksdb::ColumnFamilyHandle* handle, const Slice& key,
                           std::string* value);
  Status GetFromBatchAndDB(rocksdb::DB* db, const rocksdb::ReadOptions& options, const Slice& key,
                           rocksdb::PinnableSlice* value) {
    return GetFromBatchAndDB(db, options, nullptr, key, value);
  }
  Status GetFromBatchAndDB(rocksdb::DB* db, const rocksdb::ReadOptions& options, const Slice& key,
                           std::string* value) {
    return GetFromBatchAndDB(db, options, nullptr, key, value);
  }

  /// Looks up keys in this batch and, as one batch of lookups, in `db`; the batch's merge operands
  /// are applied to what the database has.
  /// Shape   keys, values and statuses of `count` elements; handle may be null: the default family.
  /// Errors  as rocksdb's.
  void MultiGetFromBatchAndDB(rocksdb::DB* db, const rocksdb::ReadOptions& options,
                              rocksdb::ColumnFamilyHandle* handle, std::size_t count,
                              const Slice* keys, rocksdb::PinnableSlice* values, Status* statuses,
                              bool sorted_input);
};

}  // namespace breccia
