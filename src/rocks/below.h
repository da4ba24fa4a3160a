#pragma once

#include <breccia/options.h>
#include <rocksdb/db.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

/// The LSM tree below: an ordinary RocksDB database that is only ever written by ingesting files.
///
/// Its default column family holds the data; a hidden one holds the watermark: the log position
/// below which everything lies in the tree, and which log that is. Files and watermark go in with
/// one call, so a flush happens exactly once whatever crashes. A new tree chooses its log's
/// identity before there is a log, so no other log ever passes for it.

namespace breccia::rocks {

/// A point in time of the tree. Readers hold it; it is released with its last reference.
using BelowSnapshot = std::shared_ptr<const rocksdb::Snapshot>;

class Below {
 public:
  /// Errors  InvalidArgument: missing or existing against the options; IOError: held by another
  ///         process, or the medium; Corruption.
  static Result<std::unique_ptr<Below>> open(const Options& options, const std::string& path,
                                             int partitions);
  ~Below();

  /// Log position below which everything lies in the tree.
  [[nodiscard]] std::uint64_t applied() const { return watermark_.applied; }
  /// The log that positions refer to (wal::LogOptions::store_id).
  [[nodiscard]] std::uint64_t store_id() const { return watermark_.store_id; }

  [[nodiscard]] BelowSnapshot snapshot() const;
  Status get(const rocksdb::Snapshot* at, const Slice& key, rocksdb::PinnableSlice* value) const;
  /// Shape   keys, values and statuses of `count` elements.
  void multi_get(const rocksdb::Snapshot* at, std::size_t count, const Slice* keys,
                 rocksdb::PinnableSlice* values, Status* statuses) const;

  /// Writes one SST file of the entries that `next` yields, in strictly ascending key order.
  /// `next` returns false at the end. An empty file is not kept: *path is then empty.
  struct Entry {
    Slice key;
    Slice value;
    bool is_delete;
  };
  template <class Next>
  Status write_file(int number, const Next& next, std::string* path) const;

  /// Adds the files and sets the watermark, both or neither, also across a crash.
  /// Errors  IOError, NoSpace, ...: the tree is as before.
  Status ingest(const std::vector<std::string>& files, std::uint64_t applied);

  /// False while the tree has never held an entry: lookups need not go there.
  [[nodiscard]] bool has_data() const { return has_data_.load(std::memory_order_acquire); }

  /// True while the tree asks for fewer files: writers above should wait.
  [[nodiscard]] bool overloaded() const;

  [[nodiscard]] rocksdb::DB* db() const { return db_.get(); }

 private:
  /// The hidden family's value.
  struct Watermark {
    std::uint64_t applied = 0;
    std::uint64_t store_id = 0;
  };
  static_assert(sizeof(Watermark) == 16);

  Below() = default;
  [[nodiscard]] std::string staging_path(const std::string& name) const;
  Status open_families(const Options& options, const std::string& path, int partitions);
  Status clear_staging();
  Status read_watermark();
  Status write_watermark_file(const Watermark& watermark, std::string* path) const;

  std::shared_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  rocksdb::ColumnFamilyHandle* data_ = nullptr;
  rocksdb::ColumnFamilyHandle* hidden_ = nullptr;
  rocksdb::Options options_;
  std::string path_;
  Watermark watermark_;
  int stop_files_ = 0;
  /// In the names of staged files: a name is never used again, since a file that was ingested may
  /// still bear it.
  std::uint64_t ingests_ = 0;
  std::atomic<bool> has_data_{false};
};

}  // namespace breccia::rocks

#include "rocks/below_inl.h"
