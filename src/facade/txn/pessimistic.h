#pragma once

#include <breccia/transaction_db.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "facade/txn/transaction.h"
#include "txn/lock_table.h"

namespace breccia::facade {

class PessimisticTransaction;

/// Errors  NotSupported: a write policy other than WRITE_COMMITTED, a lock manager of the user's.
Status check_transactions(const TransactionDBOptions& options);

/// What the transactions of one TransactionDB share: locks, names, and the prepared ones' writes,
/// which lie in a column family of their own (name -> batch) until they are committed.
/// Threads any.
class Transactions {
 public:
  Transactions(Rocks* rocks, const TransactionDBOptions& options);
  /// Deletes transactions that have a name still.
  ~Transactions();

  [[nodiscard]] Rocks* rocks() const { return rocks_; }
  [[nodiscard]] const TransactionDBOptions& options() const { return options_; }
  [[nodiscard]] txn::LockTable& locks() { return locks_; }

  /// Errors  InvalidArgument: there is one of that name.
  Status add(const std::string& name, PessimisticTransaction* transaction);
  void remove(const std::string& name);
  [[nodiscard]] PessimisticTransaction* find(const std::string& name) const;
  [[nodiscard]] std::vector<PessimisticTransaction*> prepared() const;

  /// Makes transactions of what earlier runs have prepared, with their locks.
  Status recover();
  /// The handle of the family of prepared transactions, which is made when first wanted.
  Result<rocksdb::ColumnFamilyHandle*> prepared_family();

 private:
  [[nodiscard]] bool find_prepared_family();
  Status recover(const std::string& name, const std::string& record, bool without_locks);

  Rocks* const rocks_;
  const TransactionDBOptions options_;
  txn::LockTable locks_;
  mutable std::mutex mutex_;
  std::map<std::string, PessimisticTransaction*> named_;
  std::mutex family_mutex_;
  std::unique_ptr<Handle> prepared_family_;
};

/// Keys are locked when they are written or read for an update; commit writes and lets go of them.
class PessimisticTransaction final : public TransactionBase {
 public:
  PessimisticTransaction(Transactions* transactions, const rocksdb::WriteOptions& write_options,
                         const rocksdb::TransactionOptions& options);
  ~PessimisticTransaction() override;
  void begin_again(const rocksdb::WriteOptions& write_options,
                   const rocksdb::TransactionOptions& options);

  Status SetName(const rocksdb::TransactionName& name) override;
  Status Prepare() override;
  Status Commit() override;
  Status Rollback() override;
  Status RollbackToSavePoint() override;
  /// Locks the batch's keys, in order, and writes it: a write without a transaction.
  Status commit_batch(const rocksdb::WriteBatch& batch);
  /// Makes this transaction what it was when `batch` was prepared.
  Status recover(const std::string& name, rocksdb::WriteBatch* batch);

  void SetLockTimeout(std::int64_t timeout) override { locker_.wait_us_max = timeout * 1000; }
  [[nodiscard]] rocksdb::TransactionID GetID() const override { return locker_.id; }
  [[nodiscard]] bool IsDeadlockDetect() const override { return locker_.detects_deadlock; }
  std::vector<rocksdb::TransactionID> GetWaitingTxns(std::uint32_t* family,
                                                     std::string* key) const override;

 protected:
  Status try_lock(FamilyId family, const std::string& key, const Tracking& how) override;
  void unlock(FamilyId family, const std::string& key) override;

 private:
  void initialize(const rocksdb::TransactionOptions& options);
  void clear_and_unlock();
  [[nodiscard]] bool expired() const;
  /// From kStarted on to `next`, unless the locks were taken away.
  bool leave_started(TransactionState next);
  [[nodiscard]] Status wrong_state() const;
  Status validate_snapshot(FamilyId family, const std::string& key, std::uint64_t* tracked_at);
  Status write_prepared();
  Status commit_started();
  Status commit_prepared();
  Status rollback_prepared();
  Status write_all(std::span<const rocksdb::WriteBatch* const> batches);
  /// Writes the end of a prepared transaction; `ending` is its state meanwhile.
  Status end_prepared(rocksdb::Transaction::TransactionState ending,
                      std::span<const rocksdb::WriteBatch* const> batches);

  Transactions* const transactions_;
  txn::Locker locker_;
  bool skips_locks_ = false;
  bool skips_prepare_ = true;
  bool may_expire_ = false;  // the lock table knows of it
};

}  // namespace breccia::facade
