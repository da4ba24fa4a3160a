#include <breccia/optimistic_transaction_db.h>

#include "base/memory.h"
#include "facade/db/options.h"
#include "facade/txn/transaction.h"

/// OptimisticTransactionDB and its transactions.

namespace breccia {

namespace facade {

namespace {

/// Keys are noted with the position that they are read or written at; commit finds out whether
/// somebody else has written them since.
class OptimisticTransaction final : public TransactionBase {
 public:
  OptimisticTransaction(Rocks* rocks, bool serializable, const rocksdb::WriteOptions& write_options,
                        const rocksdb::OptimisticTransactionOptions& options)
      : TransactionBase(rocks, serializable, write_options) {
    if (options.set_snapshot) SetSnapshot();
  }

  void begin_again(const rocksdb::WriteOptions& write_options,
                   const rocksdb::OptimisticTransactionOptions& options) {
    reinitialize(write_options);
    if (options.set_snapshot) SetSnapshot();
  }

  Status Prepare() override {
    return Status::InvalidArgument("Two phase commit not supported for optimistic transactions.");
  }

  Status Commit() override {
    const rocksdb::WriteBatch* const batches[] = {batch_->GetWriteBatch()};
    BRECCIA_TRY(write(batches, tracked_));
    clear();
    return Status::OK();
  }

  Status Rollback() override {
    clear();
    return Status::OK();
  }

  void SetLockTimeout(std::int64_t) override {}
  Status SetName(const rocksdb::TransactionName&) override {
    return Status::InvalidArgument("Optimistic transactions cannot be named.");
  }

 protected:
  Status try_lock(FamilyId family, const std::string& key, const Tracking& how) override {
    if (!how.do_validate) return Status::OK();
    set_snapshot_if_needed();
    if (snapshot_ != nullptr) hold_history(snapshot_->GetSequenceNumber());
    track(family, key, snapshot_ != nullptr ? snapshot_->GetSequenceNumber() : hold_now(), how);
    return Status::OK();
  }
  void unlock(FamilyId, const std::string&) override {}
};

}  // namespace

}  // namespace facade

OptimisticTransactionDB::OptimisticTransactionDB(rocksdb::DB* rocks, bool serializable)
    : Base(rocks), rocks_(static_cast<Rocks*>(rocks)), serializable_(serializable) {}

Status OptimisticTransactionDB::Open(const rocksdb::Options& options, const std::string& name,
                                     Base** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    const facade::Descriptors families = {
        rocksdb::ColumnFamilyDescriptor(rocksdb::kDefaultColumnFamilyName, options)};
    return Open(facade::engine_options(options, name, families), OptimisticTransactionDBOptions(),
                name, db);
  });
}

Status OptimisticTransactionDB::Open(const rocksdb::DBOptions& options, const std::string& name,
                                     const std::vector<Descriptor>& column_families,
                                     std::vector<Handle*>* handles, Base** db) {
  return Open(options, OptimisticTransactionDBOptions(), name, column_families, handles, db);
}

Status OptimisticTransactionDB::Open(const rocksdb::DBOptions& options,
                                     const OptimisticTransactionDBOptions& transactions,
                                     const std::string& name,
                                     const std::vector<Descriptor>& column_families,
                                     std::vector<Handle*>* handles, Base** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    return Open(facade::engine_options(options, name, column_families), transactions, name,
                column_families, handles, db);
  });
}

Status OptimisticTransactionDB::Open(const Options& options,
                                     const OptimisticTransactionDBOptions& transactions,
                                     const std::string& name, Base** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    rocksdb::DB* rocks = nullptr;
    BRECCIA_TRY(Rocks::Open(options, name, &rocks));
    std::unique_ptr<rocksdb::DB> opened(rocks);
    *db = new OptimisticTransactionDB(rocks, transactions.serializable);
    (void)opened.release();
    return Status::OK();
  });
}

Status OptimisticTransactionDB::Open(const Options& options,
                                     const OptimisticTransactionDBOptions& transactions,
                                     const std::string& name,
                                     const std::vector<Descriptor>& column_families,
                                     std::vector<Handle*>* handles, Base** db) {
  *db = nullptr;
  Status status = base::or_memory_limit([&] {
    rocksdb::DB* rocks = nullptr;
    BRECCIA_TRY(Rocks::Open(options, name, column_families, handles, &rocks));
    std::unique_ptr<rocksdb::DB> opened(rocks);
    *db = new OptimisticTransactionDB(rocks, transactions.serializable);
    (void)opened.release();
    return Status::OK();
  });
  if (!status.ok()) facade::destroy(handles);
  return status;
}

rocksdb::Transaction* OptimisticTransactionDB::BeginTransaction(
    const rocksdb::WriteOptions& write_options,
    const rocksdb::OptimisticTransactionOptions& options, rocksdb::Transaction* old) {
  if (old == nullptr) {
    return new facade::OptimisticTransaction(rocks_, serializable_, write_options, options);
  }
  static_cast<facade::OptimisticTransaction*>(old)->begin_again(write_options, options);
  return old;
}

Status OptimisticTransactionDB::DeleteRange(const rocksdb::WriteOptions&, Handle*, const Slice&,
                                            const Slice&) {
  return Status::NotSupported("DeleteRange: a transaction database has no range deletions");
}

Status OptimisticTransactionDB::Write(const rocksdb::WriteOptions& options,
                                      rocksdb::WriteBatch* updates) {
  if (updates != nullptr && updates->HasDeleteRange()) {
    return Status::NotSupported("a range deletion in a batch for a transaction database");
  }
  return rocks_->Write(options, updates);
}

}  // namespace breccia
