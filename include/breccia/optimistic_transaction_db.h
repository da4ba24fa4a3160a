#pragma once

#include <breccia/rocks.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>

#include <string>
#include <vector>

namespace breccia {

/// RocksDB's options and breccia's own.
struct OptimisticTransactionDBOptions : rocksdb::OptimisticTransactionDBOptions {
  OptimisticTransactionDBOptions() = default;
  OptimisticTransactionDBOptions(  // NOLINT: implicit, so that a program's own options do
      const rocksdb::OptimisticTransactionDBOptions& options)
      : rocksdb::OptimisticTransactionDBOptions(options) {}

  /// Everything that a transaction reads is validated when it commits, as what GetForUpdate reads
  /// is: keys, and the ranges that iterators passed over. Transactions are then serializable; else
  /// write skew is possible, as with RocksDB's.
  bool serializable = false;
};

/// A rocksdb::OptimisticTransactionDB over a breccia::Rocks: a program changes
/// `rocksdb::OptimisticTransactionDB::Open` to `breccia::OptimisticTransactionDB::Open`.
///
/// Transactions are those of RocksDB; docs/rocksdb.md lists each function. A commit is validated
/// against the positions of breccia's own versions and is one record of its log.
///
/// Owner   delete it, after its transactions. It owns the Rocks that it is made of.
/// Threads any number may call any member at once; a transaction is used by one at a time.
class OptimisticTransactionDB final : public rocksdb::OptimisticTransactionDB {
 public:
  using Base = rocksdb::OptimisticTransactionDB;
  using Handle = rocksdb::ColumnFamilyHandle;
  using Descriptor = rocksdb::ColumnFamilyDescriptor;

  /// Errors  as Rocks::Open.
  static Status Open(const rocksdb::Options& options, const std::string& name, Base** db);
  static Status Open(const rocksdb::DBOptions& options, const std::string& name,
                     const std::vector<Descriptor>& column_families, std::vector<Handle*>* handles,
                     Base** db);
  /// `transactions`: validate_policy and occ_lock_buckets have no effect: commits are validated one
  /// after the other.
  static Status Open(const rocksdb::DBOptions& options,
                     const OptimisticTransactionDBOptions& transactions, const std::string& name,
                     const std::vector<Descriptor>& column_families, std::vector<Handle*>* handles,
                     Base** db);
  static Status Open(const Options& options, const OptimisticTransactionDBOptions& transactions,
                     const std::string& name, Base** db);
  static Status Open(const Options& options, const OptimisticTransactionDBOptions& transactions,
                     const std::string& name, const std::vector<Descriptor>& column_families,
                     std::vector<Handle*>* handles, Base** db);

  rocksdb::Transaction* BeginTransaction(const rocksdb::WriteOptions& write_options,
                                         const rocksdb::OptimisticTransactionOptions& options =
                                             rocksdb::OptimisticTransactionOptions(),
                                         rocksdb::Transaction* old = nullptr) override;

  using StackableDB::DeleteRange;
  /// Errors  NotSupported, as RocksDB's.
  Status DeleteRange(const rocksdb::WriteOptions& options, Handle* handle, const Slice& begin,
                     const Slice& end) override;
  /// Errors  also NotSupported: there is a range deletion in it.
  Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* updates) override;

 private:
  OptimisticTransactionDB(rocksdb::DB* rocks, bool serializable);

  Rocks* const rocks_;
  const bool serializable_;
};

}  // namespace breccia
