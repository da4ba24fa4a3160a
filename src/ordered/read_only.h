#pragma once

#include <breccia/options.h>
#include <rocksdb/db.h>

#include <memory>
#include <string>
#include <vector>

#include "ordered/state.h"
#include "tree/tree.h"
#include "wal/log_open.h"

namespace breccia::ordered {

/// A store opened to be looked at: what lies in its tree and, above that, in its log. Nothing in
/// its folders changes, whatever state they are in, and no store opens them meanwhile.
///
/// A RocksDB database that never was a store is read as it is, and so is a copy of a store that
/// RocksDB made (tree/copies.h).
///
/// Owner   handles and iterators end before the store.
/// Threads any.
class ReadOnlyStore {
 public:
  /// Shape   options.rocksdb and options.families as for Store::Open; families that the options do
  ///         not name get the default one's; options.wal_dir: where the log is.
  /// Errors  IOError: a store or a RocksDB holds the folder, or the medium; InvalidArgument,
  ///         Corruption: as Store::Open.
  static Result<std::unique_ptr<ReadOnlyStore>> open(const Options& options,
                                                     const std::string& path);
  /// The same where the log may be damaged: then log_status() says how, and the tree is all there
  /// is.
  static Result<std::unique_ptr<ReadOnlyStore>> open_damaged(const Options& options,
                                                             const std::string& path);
  ~ReadOnlyStore();
  ReadOnlyStore(const ReadOnlyStore&) = delete;
  ReadOnlyStore& operator=(const ReadOnlyStore&) = delete;

  /// All families but the hidden one.
  [[nodiscard]] const std::vector<rocksdb::ColumnFamilyHandle*>& families() const {
    return families_;
  }
  /// An iterator over `family` with everything that was committed.
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> iterate(
      const rocksdb::ReadOptions& options, rocksdb::ColumnFamilyHandle* family) const;

  /// True if the folder holds a store, or a copy of one; false: an ordinary RocksDB database.
  [[nodiscard]] bool is_store() const { return watermark_.store_id != 0; }
  [[nodiscard]] bool is_copy() const { return is_copy_; }
  /// True if the log in log_dir(), or the lack of it, is this store's.
  [[nodiscard]] bool owns_log() const { return is_store() && !is_copy_; }
  [[nodiscard]] const tree::Watermark& watermark() const { return watermark_; }
  [[nodiscard]] const wal::ReadLog& log() const { return log_; }
  [[nodiscard]] const Status& log_status() const { return log_status_; }
  [[nodiscard]] const std::string& log_dir() const { return log_dir_; }
  /// What is in memory of a family: runs and range deletions of what the log holds.
  [[nodiscard]] const View& view() const { return *pin_.view; }
  /// The tree, without what only the log holds.
  [[nodiscard]] rocksdb::DB& tree() const { return *tree_; }

 private:
  ReadOnlyStore() = default;
  Status lock_tree(const std::string& path);
  Status open_tree(const Options& options, const std::string& path);
  Status read_log();
  Status make_view();

  std::string log_dir_;
  wal::ReadLog log_;
  Status log_status_;
  std::shared_ptr<void> tree_lock_;
  std::unique_ptr<rocksdb::DB> tree_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  rocksdb::ColumnFamilyHandle* hidden_ = nullptr;
  tree::Watermark watermark_;
  bool is_copy_ = false;
  std::shared_ptr<runs::Backend> host_;  // holds the memory of the view's runs
  Pin pin_;
};

}  // namespace breccia::ordered
