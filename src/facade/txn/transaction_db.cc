#include <breccia/transaction_db.h>

#include "base/memory.h"
#include "facade/db/options.h"
#include "facade/txn/pessimistic.h"

/// TransactionDB.

namespace breccia {

Status facade::check_transactions(const TransactionDBOptions& options) {
  if (options.write_policy != rocksdb::WRITE_COMMITTED) {
    return Status::NotSupported(
        "a write policy other than WRITE_COMMITTED",
        "breccia's log holds only what is committed, and what is prepared apart from it");
  }
  if (options.lock_mgr_handle != nullptr) {
    return Status::NotSupported("TransactionDBOptions::lock_mgr_handle",
                                "breccia's locks are on keys; leave it null");
  }
  return Status::OK();
}

namespace {

/// Brings into files what RocksDB's own log holds of transactions with two phases: the tree below,
/// which is no transaction database, cannot read it there.
/// Errors  NotSupported: some of them are prepared still; those of RocksDB.
Status end_two_phases(const rocksdb::DBOptions& given, const std::string& name,
                      const facade::Descriptors& families) {
  rocksdb::DBOptions options = given;
  options.listeners.clear();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::TransactionDB* opened = nullptr;
  BRECCIA_TRY(rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(), name, families,
                                           &handles, &opened));
  const std::unique_ptr<rocksdb::TransactionDB> db(opened);
  std::vector<rocksdb::Transaction*> prepared;
  db->GetAllPreparedTransactions(&prepared);
  Status status =
      prepared.empty()
          ? db->Flush(rocksdb::FlushOptions(), handles)
          : Status::NotSupported(
                name + " has transactions that RocksDB has prepared",
                "they are in RocksDB's log: commit them or roll them back with RocksDB");
  for (auto* const handle : handles) {
    const Status destroyed = db->DestroyColumnFamilyHandle(handle);
    if (status.ok()) status = destroyed;
  }
  return status;
}

/// Before a database is opened that RocksDB may have had as a transaction database. What else is
/// wrong with it, opening it says.
Status take_over(const Options& options, const std::string& name,
                 const facade::Descriptors& families) {
  const bool is_there = options.rocksdb.env->FileExists(name + "/CURRENT").ok();
  if (!is_there || options.error_if_exists || facade::is_store(options.rocksdb, name) ||
      !facade::check_options(options, name).ok() ||
      !facade::check_families(options, name, families).ok()) {
    return Status::OK();
  }
  return end_two_phases(options.rocksdb, name, families);
}

facade::Descriptors default_family(const rocksdb::ColumnFamilyOptions& options) {
  return {rocksdb::ColumnFamilyDescriptor(rocksdb::kDefaultColumnFamilyName, options)};
}

}  // namespace

TransactionDB::TransactionDB(rocksdb::DB* rocks)
    : Base(rocks), rocks_(static_cast<Rocks*>(rocks)) {}

TransactionDB::~TransactionDB() = default;  // the transactions go before the Rocks, a base's member

Status TransactionDB::make(rocksdb::DB* rocks, const TransactionDBOptions& transactions,
                           Base** db) {
  return base::or_memory_limit([&] {
    std::unique_ptr<rocksdb::DB> opened(rocks);
    std::unique_ptr<TransactionDB> made(new TransactionDB(rocks));
    (void)opened.release();
    made->transactions_ = std::make_unique<facade::Transactions>(made->rocks_, transactions);
    BRECCIA_TRY(made->transactions_->recover());
    *db = made.release();
    return Status::OK();
  });
}

Status TransactionDB::Open(const rocksdb::Options& options,
                           const TransactionDBOptions& transactions, const std::string& name,
                           Base** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    return Open(facade::engine_options(options, name, default_family(options)), transactions, name,
                db);
  });
}

Status TransactionDB::Open(const rocksdb::DBOptions& options,
                           const TransactionDBOptions& transactions, const std::string& name,
                           const std::vector<Descriptor>& column_families,
                           std::vector<Handle*>* handles, Base** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    return Open(facade::engine_options(options, name, column_families), transactions, name,
                column_families, handles, db);
  });
}

Status TransactionDB::Open(const Options& options, const TransactionDBOptions& transactions,
                           const std::string& name, Base** db) {
  *db = nullptr;
  BRECCIA_TRY(facade::check_transactions(transactions));
  BRECCIA_TRY(base::or_memory_limit(
      [&] { return take_over(options, name, default_family(options.rocksdb)); }));
  rocksdb::DB* rocks = nullptr;
  BRECCIA_TRY(Rocks::Open(options, name, &rocks));
  return make(rocks, transactions, db);
}

Status TransactionDB::Open(const Options& options, const TransactionDBOptions& transactions,
                           const std::string& name, const std::vector<Descriptor>& column_families,
                           std::vector<Handle*>* handles, Base** db) {
  *db = nullptr;
  BRECCIA_TRY(facade::check_transactions(transactions));
  BRECCIA_TRY(base::or_memory_limit([&] { return take_over(options, name, column_families); }));
  rocksdb::DB* rocks = nullptr;
  BRECCIA_TRY(Rocks::Open(options, name, column_families, handles, &rocks));
  Status status = make(rocks, transactions, db);
  if (!status.ok()) facade::destroy(handles);
  return status;
}

// ---- transactions ------------------------------------------------------------------------------

rocksdb::Transaction* TransactionDB::BeginTransaction(const rocksdb::WriteOptions& write_options,
                                                      const rocksdb::TransactionOptions& options,
                                                      Transaction* old) {
  if (old == nullptr) {
    return new facade::PessimisticTransaction(transactions_.get(), write_options, options);
  }
  static_cast<facade::PessimisticTransaction*>(old)->begin_again(write_options, options);
  return old;
}

rocksdb::Transaction* TransactionDB::GetTransactionByName(const rocksdb::TransactionName& name) {
  return transactions_->find(name);
}

void TransactionDB::GetAllPreparedTransactions(std::vector<Transaction*>* transactions) {
  const auto prepared = transactions_->prepared();
  transactions->assign(prepared.begin(), prepared.end());
}

// ---- writes ------------------------------------------------------------------------------------

// One mechanism for all of them: a batch whose keys are locked.
Status TransactionDB::Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* updates) {
  if (updates == nullptr) return Status::InvalidArgument("batch is nullptr");
  BRECCIA_TRY(rocks_->core().check_open());
  const TransactionDBOptions& own = transactions_->options();
  if (own.skip_concurrency_control) return rocks_->Write(options, updates);
  return base::or_memory_limit([&] {
    rocksdb::TransactionOptions transaction_options;
    facade::PessimisticTransaction transaction(transactions_.get(), options, transaction_options);
    transaction.SetLockTimeout(own.default_lock_timeout);
    return transaction.commit_batch(*updates);
  });
}

Status TransactionDB::Write(const rocksdb::WriteOptions& options,
                            const rocksdb::TransactionDBWriteOptimizations& optimizations,
                            rocksdb::WriteBatch* updates) {
  return optimizations.skip_concurrency_control ? rocks_->Write(options, updates)
                                                : Write(options, updates);
}

Status TransactionDB::Put(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
                          const Slice& value) {
  BRECCIA_TRY(rocks_->core().family(handle).status());
  return base::or_memory_limit([&] {
    rocksdb::WriteBatch one;
    BRECCIA_TRY(one.Put(handle, key, value));
    return Write(options, &one);
  });
}

Status TransactionDB::Delete(const rocksdb::WriteOptions& options, Handle* handle,
                             const Slice& key) {
  BRECCIA_TRY(rocks_->core().family(handle).status());
  return base::or_memory_limit([&] {
    rocksdb::WriteBatch one;
    BRECCIA_TRY(one.Delete(handle, key));
    return Write(options, &one);
  });
}

Status TransactionDB::SingleDelete(const rocksdb::WriteOptions& options, Handle* handle,
                                   const Slice& key) {
  BRECCIA_TRY(rocks_->core().family(handle).status());
  return base::or_memory_limit([&] {
    rocksdb::WriteBatch one;
    BRECCIA_TRY(one.SingleDelete(handle, key));
    return Write(options, &one);
  });
}

Status TransactionDB::Merge(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
                            const Slice& operand) {
  BRECCIA_TRY(rocks_->core().family(handle).status());
  return base::or_memory_limit([&] {
    rocksdb::WriteBatch one;
    BRECCIA_TRY(one.Merge(handle, key, operand));
    return Write(options, &one);
  });
}

// ---- locks -------------------------------------------------------------------------------------

std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> TransactionDB::GetLockStatusData() {
  return transactions_->locks().held();
}

std::vector<rocksdb::DeadlockPath> TransactionDB::GetDeadlockInfoBuffer() {
  return transactions_->locks().cycles();
}

void TransactionDB::SetDeadlockInfoBufferSize(std::uint32_t target_size) {
  transactions_->locks().set_cycles_max(target_size);
}

// ---- snapshots with timestamps -----------------------------------------------------------------

std::pair<Status, std::shared_ptr<const rocksdb::Snapshot>>
TransactionDB::CreateTimestampedSnapshot(rocksdb::TxnTimestamp) {
  return {Status::NotSupported("timestamped snapshots: breccia has no user-defined timestamps"),
          nullptr};
}

std::shared_ptr<const rocksdb::Snapshot> TransactionDB::GetTimestampedSnapshot(
    rocksdb::TxnTimestamp) const {
  return nullptr;
}

void TransactionDB::ReleaseTimestampedSnapshotsOlderThan(rocksdb::TxnTimestamp) {}

Status TransactionDB::GetTimestampedSnapshots(
    rocksdb::TxnTimestamp, rocksdb::TxnTimestamp,
    std::vector<std::shared_ptr<const rocksdb::Snapshot>>& snapshots) const {
  snapshots.clear();
  return Status::OK();
}

}  // namespace breccia
