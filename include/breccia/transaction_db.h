#pragma once

#include <breccia/rocks.h>
#include <rocksdb/utilities/transaction_db.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace breccia {

namespace facade {
class Transactions;
}

/// RocksDB's options and breccia's own.
struct TransactionDBOptions : rocksdb::TransactionDBOptions {
  TransactionDBOptions() = default;
  TransactionDBOptions(  // NOLINT: implicit, so that a program's own options do
      const rocksdb::TransactionDBOptions& options)
      : rocksdb::TransactionDBOptions(options) {}

  /// Everything that a transaction reads without a lock is validated when it commits: keys, and the
  /// ranges that iterators passed over. Transactions are then serializable, and Commit may return
  /// Busy; else write skew is possible, as with RocksDB's.
  bool serializable = false;
};

/// A rocksdb::TransactionDB over a breccia::Rocks: a program changes `rocksdb::TransactionDB::Open`
/// to `breccia::TransactionDB::Open`.
///
/// Transactions are those of RocksDB's write policy WRITE_COMMITTED; docs/rocksdb.md lists each
/// function. Locks are breccia's own, and a commit is one record of its log.
///
/// Owner   delete it, after its transactions but for those that have a name. It owns the Rocks that
///         it is made of.
/// Threads any number may call any member at once; a transaction is used by one at a time.
class TransactionDB final : public rocksdb::TransactionDB {
 public:
  using Base = rocksdb::TransactionDB;
  using Handle = rocksdb::ColumnFamilyHandle;
  using Descriptor = rocksdb::ColumnFamilyDescriptor;
  using Transaction = rocksdb::Transaction;

  /// Prepared transactions of earlier runs are found by GetAllPreparedTransactions, with their
  /// locks.
  /// Errors  as Rocks::Open; NotSupported: a write policy other than WRITE_COMMITTED, a lock
  ///         manager of the user's.
  static Status Open(const rocksdb::Options& options, const TransactionDBOptions& transactions,
                     const std::string& name, Base** db);
  static Status Open(const rocksdb::DBOptions& options, const TransactionDBOptions& transactions,
                     const std::string& name, const std::vector<Descriptor>& column_families,
                     std::vector<Handle*>* handles, Base** db);
  static Status Open(const Options& options, const TransactionDBOptions& transactions,
                     const std::string& name, Base** db);
  static Status Open(const Options& options, const TransactionDBOptions& transactions,
                     const std::string& name, const std::vector<Descriptor>& column_families,
                     std::vector<Handle*>* handles, Base** db);
  ~TransactionDB() override;
  /// RocksDB's would write to the tree past breccia's log.
  template <class... Any>
  static Status PrepareWrap(Any&&...) = delete;
  template <class... Any>
  static Status WrapDB(Any&&...) = delete;
  template <class... Any>
  static Status WrapStackableDB(Any&&...) = delete;

  Transaction* BeginTransaction(
      const rocksdb::WriteOptions& write_options,
      const rocksdb::TransactionOptions& options = rocksdb::TransactionOptions(),
      Transaction* old = nullptr) override;
  Transaction* GetTransactionByName(const rocksdb::TransactionName& name) override;
  void GetAllPreparedTransactions(std::vector<Transaction*>* transactions) override;

  // ---- writes: each locks its keys until it is done ----

  using StackableDB::Delete;
  using StackableDB::Merge;
  using StackableDB::Put;
  using StackableDB::SingleDelete;
  Status Put(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
             const Slice& value) override;
  Status Delete(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key) override;
  Status SingleDelete(const rocksdb::WriteOptions& options, Handle* handle,
                      const Slice& key) override;
  Status Merge(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
               const Slice& operand) override;
  /// Errors  also NotSupported: there is a range deletion in it.
  Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* updates) override;
  Status Write(const rocksdb::WriteOptions& options,
               const rocksdb::TransactionDBWriteOptimizations& optimizations,
               rocksdb::WriteBatch* updates) override;

  // ---- locks ----

  std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> GetLockStatusData() override;
  std::vector<rocksdb::DeadlockPath> GetDeadlockInfoBuffer() override;
  void SetDeadlockInfoBufferSize(std::uint32_t target_size) override;

  // ---- snapshots with timestamps: there are none ----

  std::pair<Status, std::shared_ptr<const rocksdb::Snapshot>> CreateTimestampedSnapshot(
      rocksdb::TxnTimestamp timestamp) override;
  [[nodiscard]] std::shared_ptr<const rocksdb::Snapshot> GetTimestampedSnapshot(
      rocksdb::TxnTimestamp timestamp) const override;
  void ReleaseTimestampedSnapshotsOlderThan(rocksdb::TxnTimestamp timestamp) override;
  Status GetTimestampedSnapshots(
      rocksdb::TxnTimestamp from, rocksdb::TxnTimestamp to,
      std::vector<std::shared_ptr<const rocksdb::Snapshot>>& snapshots) const override;

 private:
  explicit TransactionDB(rocksdb::DB* rocks);
  static Status make(rocksdb::DB* rocks, const TransactionDBOptions& transactions, Base** db);

  Rocks* const rocks_;
  std::unique_ptr<facade::Transactions> transactions_;
};

}  // namespace breccia
