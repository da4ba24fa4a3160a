#include "facade/txn/pessimistic.h"

#include <set>

#include "base/clock.h"
#include "base/memory.h"
#include "facade/db/write_batches.h"

/// Transactions that lock. A key is locked in the database's lock table when it is written or read
/// for update, and then looked up, if the transaction has a snapshot: a newer version is Busy. One
/// in two phases is kept as a record, under its name, in a family of breccia's own: Prepare writes
/// it; Commit, or Rollback, takes it away, in one batch with what it wrote. An opening locks anew
/// what records name.

namespace breccia::facade {

namespace {

constexpr std::uint64_t kUntracked = ~std::uint64_t{0};

rocksdb::TransactionID next_id() {
  static std::atomic<rocksdb::TransactionID> next{1};
  return next.fetch_add(1);
}

}  // namespace

PessimisticTransaction::PessimisticTransaction(Transactions* transactions,
                                               const rocksdb::WriteOptions& write_options,
                                               const rocksdb::TransactionOptions& options)
    : TransactionBase(transactions->rocks(), transactions->options().serializable, write_options),
      transactions_(transactions) {
  initialize(options);
}

PessimisticTransaction::~PessimisticTransaction() {
  transactions_->locks().unlock(locker_.id, tracked_);
  if (may_expire_) transactions_->locks().forget(locker_.id);
  if (!name_.empty() && txn_state_ != COMMITTED) transactions_->remove(name_);
}

void PessimisticTransaction::begin_again(const rocksdb::WriteOptions& write_options,
                                         const rocksdb::TransactionOptions& options) {
  clear_and_unlock();
  if (may_expire_) transactions_->locks().forget(locker_.id);
  if (!name_.empty() && txn_state_ != COMMITTED) transactions_->remove(name_);
  reinitialize(write_options);
  initialize(options);
}

void PessimisticTransaction::initialize(const rocksdb::TransactionOptions& options) {
  const std::int64_t timeout = options.lock_timeout >= 0
                                   ? options.lock_timeout
                                   : transactions_->options().transaction_lock_timeout;
  locker_ = {next_id(), timeout * 1000, 0, options.deadlock_detect,
             static_cast<std::uint64_t>(std::max<std::int64_t>(options.deadlock_detect_depth, 0))};
  txn_state_ = STARTED;
  skips_locks_ = options.skip_concurrency_control;
  skips_prepare_ = options.skip_prepare;
  batch_->SetMaxBytes(options.max_write_batch_size);
  if (options.set_snapshot) SetSnapshot();
  // Last: where something before it finds no memory, there is no transaction to ask.
  may_expire_ = options.expiration >= 0;
  if (may_expire_) {
    locker_.expires_us = base::now_us() + static_cast<std::uint64_t>(options.expiration) * 1000;
    transactions_->locks().may_expire(locker_.id, [this] {
      TransactionState expected = STARTED;
      return txn_state_.compare_exchange_strong(expected, LOCKS_STOLEN);
    });
  }
}

void PessimisticTransaction::clear_and_unlock() {
  transactions_->locks().unlock(locker_.id, tracked_);
  clear();
}

bool PessimisticTransaction::expired() const {
  return locker_.expires_us != 0 && base::now_us() >= locker_.expires_us;
}

// ---- locks -------------------------------------------------------------------------------------

Status PessimisticTransaction::try_lock(FamilyId family, const std::string& key,
                                        const Tracking& how) {
  if (skips_locks_) return Status::OK();
  const txn::TrackedKey* const before = tracked_.find(family, key);
  const bool upgrades = before != nullptr && how.exclusive && !before->exclusive;
  std::uint64_t tracked_at = before != nullptr ? before->since : kUntracked;
  Status status;
  if (before == nullptr || upgrades) {
    status = transactions_->locks().lock(locker_, family, key, how.exclusive);
  }
  const Status taken = base::or_memory_limit([this] {
    set_snapshot_if_needed();
    return Status::OK();
  });
  if (!taken.ok()) {
    if (status.ok() && before == nullptr) unlock(family, key);
    return taken;
  }
  if (!how.do_validate || snapshot_ == nullptr) {
    if (how.assume_tracked && before == nullptr) {
      if (status.ok()) unlock(family, key);
      return Status::InvalidArgument("assume_tracked is set but it is not tracked yet");
    }
    if (tracked_at == kUntracked) tracked_at = now();
  } else if (status.ok()) {
    status = base::or_memory_limit([&] { return validate_snapshot(family, key, &tracked_at); });
    if (!status.ok() && upgrades) {
      transactions_->locks().lock(locker_, family, key, false).PermitUncheckedError();
    } else if (!status.ok() && before == nullptr) {
      unlock(family, key);
    }
  }
  if (!status.ok() || how.assume_tracked) return status;
  status = base::or_memory_limit([&] {
    track(family, key, tracked_at, how);
    return Status::OK();
  });
  // What is not tracked nobody would unlock.
  if (!status.ok() && tracked_.find(family, key) == nullptr) unlock(family, key);
  return status;
}

void PessimisticTransaction::unlock(FamilyId family, const std::string& key) {
  transactions_->locks().unlock(locker_.id, family, key);
}

/// Errors  Busy: the key was written since the snapshot; TryAgain: that cannot be said any more.
Status PessimisticTransaction::validate_snapshot(FamilyId family, const std::string& key,
                                                 std::uint64_t* tracked_at) {
  const std::uint64_t snapshot = snapshot_->GetSequenceNumber();
  if (*tracked_at <= snapshot) return Status::OK();  // it was validated, or locked, before that
  *tracked_at = snapshot;
  txn::TrackedKeys one;
  one.track(family, key, snapshot, /*read_only=*/true, /*exclusive=*/false);
  OwnedReadSet reads;
  if (!reads.add(one)) return Status::MemoryLimit("no memory to validate a key");
  return core_.engine().lookups().validate(core_.engine().pin(), reads.set());
}

std::vector<rocksdb::TransactionID> PessimisticTransaction::GetWaitingTxns(std::uint32_t* family,
                                                                           std::string* key) const {
  txn::LockTable::Waiting waiting = transactions_->locks().waiting(locker_.id);
  if (family != nullptr) *family = waiting.family;
  if (key != nullptr) *key = std::move(waiting.key);
  return std::move(waiting.holders);
}

Status PessimisticTransaction::RollbackToSavePoint() {
  if (txn_state_ != STARTED) {
    return Status::InvalidArgument("Transaction is beyond state for rollback.");
  }
  return base::or_memory_limit([&] {
    if (!save_points_.empty()) {
      transactions_->locks().unlock(locker_.id, tracked_.only_in(save_points_.back().since));
    }
    return TransactionBase::RollbackToSavePoint();
  });
}

// ---- committing --------------------------------------------------------------------------------

bool PessimisticTransaction::leave_started(TransactionState next) {
  TransactionState expected = STARTED;
  return txn_state_.compare_exchange_strong(expected, next);
}

Status PessimisticTransaction::wrong_state() const {
  switch (txn_state_) {
    case LOCKS_STOLEN:
      return Status::Expired();
    case PREPARED:
      return Status::InvalidArgument("Transaction has already been prepared.");
    case COMMITTED:
      return Status::InvalidArgument("Transaction has already been committed.");
    case ROLLEDBACK:
      return Status::InvalidArgument("Transaction has already been rolledback.");
    default:
      return Status::InvalidArgument("Transaction is not in state for commit.");
  }
}

Status PessimisticTransaction::SetName(const rocksdb::TransactionName& name) {
  if (txn_state_ != STARTED) {
    return Status::InvalidArgument("Transaction is beyond state for naming.");
  }
  if (!name_.empty()) return Status::InvalidArgument("Transaction has already been named.");
  if (transactions_->find(name) != nullptr) {
    return Status::InvalidArgument("Transaction name must be unique.");
  }
  constexpr std::size_t kNameBytesMax = 512;
  if (name.empty() || name.size() > kNameBytesMax) {
    return Status::InvalidArgument("Transaction name length must be between 1 and 512 chars.");
  }
  return base::or_memory_limit([&] {
    rocksdb::TransactionName kept = name;
    BRECCIA_TRY(transactions_->add(name, this));
    name_.swap(kept);
    return Status::OK();
  });
}

Status PessimisticTransaction::Prepare() {
  if (name_.empty()) {
    return Status::InvalidArgument("Cannot prepare a transaction that has not been named.");
  }
  if (expired()) return Status::Expired();
  if (!reads_.empty()) {
    return Status::NotSupported(
        "Prepare after reads that are validated at commit",
        "in a serializable transaction that is to be prepared, read with GetForUpdate");
  }
  if (!leave_started(AWAITING_PREPARE)) return wrong_state();
  const Status status = base::or_memory_limit([&] { return write_prepared(); });
  if (!status.ok()) {
    txn_state_ = STARTED;  // it may be tried again, or rolled back
    return status;
  }
  // From now on it does not expire. The locks that it has may have a time, but nobody takes them:
  // that needs a transaction that is still going on.
  locker_.expires_us = 0;
  log_number_ = now();
  txn_state_ = PREPARED;
  return Status::OK();
}

Status PessimisticTransaction::write_prepared() {
  BRECCIA_TAKE(auto* const family, transactions_->prepared_family());
  rocksdb::WriteBatch record;
  BRECCIA_TRY(record.Put(family, name_, batch_->GetWriteBatch()->Data()));
  rocksdb::WriteOptions options = write_options_;
  options.disableWAL = false;
  const rocksdb::WriteBatch* const batches[] = {&record};
  return write_batches(&core_, options, ordered::ReadSet(), batches);
}

Status PessimisticTransaction::Commit() {
  if (expired()) return Status::Expired();
  if (txn_state_ == PREPARED) return base::or_memory_limit([&] { return commit_prepared(); });
  if (txn_state_ == STARTED && locker_.expires_us == 0 && !skips_prepare_) {
    return Status::TxnNotPrepared();
  }
  return commit_started();
}

Status PessimisticTransaction::write_all(std::span<const rocksdb::WriteBatch* const> batches) {
  if (snapshot_needed_) {
    return Status::InvalidArgument("Must set transaction commit timestamp");
  }
  BRECCIA_TRY(write(batches, txn::TrackedKeys()));
  SetId(now());
  return Status::OK();
}

// What was prepared stays so if its end finds no room, or is refused otherwise: nothing was
// written.
Status PessimisticTransaction::end_prepared(TransactionState ending,
                                            std::span<const rocksdb::WriteBatch* const> batches) {
  txn_state_ = ending;
  const Status status = write_batches(&core_, write_options_, ordered::ReadSet(), batches);
  if (!status.ok()) txn_state_ = PREPARED;
  return status;
}

Status PessimisticTransaction::commit_started() {
  if (!leave_started(AWAITING_COMMIT)) return wrong_state();
  if (commit_time_batch_.Count() > 0) {
    txn_state_ = STARTED;
    return Status::InvalidArgument("Commit-time batch contains values that will not be committed.");
  }
  const rocksdb::WriteBatch* const batches[] = {batch_->GetWriteBatch()};
  const Status status = write_all(batches);
  if (!name_.empty()) transactions_->remove(name_);
  clear_and_unlock();
  if (status.ok()) txn_state_ = COMMITTED;
  return status;
}

// One record for the writes and for the end of what was prepared, so that they happen once.
Status PessimisticTransaction::commit_prepared() {
  BRECCIA_TAKE(auto* const family, transactions_->prepared_family());
  rocksdb::WriteBatch done;
  BRECCIA_TRY(done.Delete(family, name_));
  if (snapshot_needed_) {
    return Status::InvalidArgument("Must set transaction commit timestamp");
  }
  const rocksdb::WriteBatch* const batches[] = {&commit_time_batch_, batch_->GetWriteBatch(),
                                                &done};
  BRECCIA_TRY(end_prepared(AWAITING_COMMIT, batches));
  SetId(now());
  transactions_->remove(name_);
  clear_and_unlock();
  txn_state_ = COMMITTED;
  return Status::OK();
}

Status PessimisticTransaction::rollback_prepared() {
  BRECCIA_TAKE(auto* const family, transactions_->prepared_family());
  rocksdb::WriteBatch done;
  BRECCIA_TRY(done.Delete(family, name_));
  const rocksdb::WriteBatch* const batches[] = {&done};
  BRECCIA_TRY(end_prepared(AWAITING_ROLLBACK, batches));
  clear_and_unlock();
  txn_state_ = ROLLEDBACK;
  return Status::OK();
}

Status PessimisticTransaction::Rollback() {
  if (txn_state_ == PREPARED) return base::or_memory_limit([&] { return rollback_prepared(); });
  if (txn_state_ == STARTED) {
    clear_and_unlock();
    return Status::OK();
  }
  if (txn_state_ == COMMITTED) {
    return Status::InvalidArgument("This transaction has already been committed.");
  }
  return Status::InvalidArgument("Two phase transaction is not in state for rollback.");
}

namespace {

/// The keys that a batch writes.
class KeysOf final : public rocksdb::WriteBatch::Handler {
 public:
  [[nodiscard]] const std::set<std::pair<FamilyId, std::string>>& keys() const { return keys_; }

  Status PutCF(FamilyId family, const Slice& key, const Slice&) override {
    return add(family, key);
  }
  Status DeleteCF(FamilyId family, const Slice& key) override { return add(family, key); }
  Status SingleDeleteCF(FamilyId family, const Slice& key) override { return add(family, key); }
  Status MergeCF(FamilyId family, const Slice& key, const Slice&) override {
    return add(family, key);
  }
  void LogData(const Slice&) override {}

 private:
  Status add(FamilyId family, const Slice& key) {
    // Between here and there is RocksDB, whose code expects no exception.
    return base::or_memory_limit([&] {
      keys_.emplace(family, key.ToString());
      return Status::OK();
    });
  }
  std::set<std::pair<FamilyId, std::string>> keys_;
};

}  // namespace

Status PessimisticTransaction::commit_batch(const rocksdb::WriteBatch& batch) {
  if (batch.HasDeleteRange()) {
    return Status::NotSupported("a range deletion in a batch for a transaction database");
  }
  KeysOf keys;
  BRECCIA_TRY(batch.Iterate(&keys));
  for (const auto& [family, key] : keys.keys()) {
    BRECCIA_TRY(try_lock(family, key,
                         {/*read_only=*/false, /*exclusive=*/true,
                          /*do_validate=*/false, /*assume_tracked=*/false}));
  }
  const rocksdb::WriteBatch* const batches[] = {&batch};
  return write_all(batches);
}

Status PessimisticTransaction::recover(const std::string& name, rocksdb::WriteBatch* batch) {
  BRECCIA_TRY(SetName(name));
  BRECCIA_TRY(rebuild(batch, /*skips_missing_families=*/true));
  txn_state_ = PREPARED;
  log_number_ = now();
  return Status::OK();
}

// ---- what they share ---------------------------------------------------------------------------

Transactions::Transactions(Rocks* rocks, const TransactionDBOptions& options)
    : rocks_(rocks),
      options_(options),
      locks_({options.num_stripes, options.max_num_locks, options.max_num_deadlocks,
              options.custom_mutex_factory}) {}

Transactions::~Transactions() {
  while (!named_.empty()) delete named_.begin()->second;  // takes itself out
}

Status Transactions::add(const std::string& name, PessimisticTransaction* transaction) {
  const std::lock_guard lock(mutex_);
  if (named_.emplace(name, transaction).second) return Status::OK();
  return Status::InvalidArgument("Transaction name must be unique.");
}

void Transactions::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  named_.erase(name);
}

PessimisticTransaction* Transactions::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = named_.find(name);
  return at == named_.end() ? nullptr : at->second;
}

std::vector<PessimisticTransaction*> Transactions::prepared() const {
  std::vector<PessimisticTransaction*> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, transaction] : named_) {
    if (transaction->GetState() == rocksdb::Transaction::PREPARED) all.push_back(transaction);
  }
  return all;
}

bool Transactions::find_prepared_family() {
  for (const tree::TreeFamily& family : rocks_->core().engine().below().families()) {
    if (family->GetName() == tree::kPreparedFamily) {
      prepared_family_ = rocks_->core().make_handle(tree::kPreparedFamily, Holder::kBreccia);
    }
  }
  return prepared_family_ != nullptr;
}

Result<rocksdb::ColumnFamilyHandle*> Transactions::prepared_family() {
  BRECCIA_TRY(rocks_->core().check_open());
  const std::lock_guard lock(family_mutex_);
  if (prepared_family_ == nullptr && !find_prepared_family()) {
    BRECCIA_TRY(rocks_->core()
                    .engine()
                    .tree_changes()
                    .create_family(tree::kPreparedFamily, rocksdb::ColumnFamilyOptions())
                    .status());
    BRECCIA_ASSERT(find_prepared_family());
  }
  return static_cast<rocksdb::ColumnFamilyHandle*>(prepared_family_.get());
}

Status Transactions::recover() {
  {
    const std::lock_guard lock(family_mutex_);
    if (!find_prepared_family()) return Status::OK();
  }
  const std::unique_ptr<rocksdb::Iterator> at(
      rocks_->NewIterator(rocksdb::ReadOptions(), prepared_family_.get()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    Status status = recover(at->key().ToString(), at->value().ToString(), false);
    if (!status.ok() && !status.IsMemoryLimit()) {
      // Transactions that were prepared without locks may overlap.
      status = recover(at->key().ToString(), at->value().ToString(), true);
    }
    BRECCIA_TRY(status);
  }
  return at->status();
}

Status Transactions::recover(const std::string& name, const std::string& record,
                             bool without_locks) {
  rocksdb::WriteBatch batch(record);
  rocksdb::WriteOptions write_options;
  write_options.sync = true;
  rocksdb::TransactionOptions options;
  options.lock_timeout = 0;
  options.skip_concurrency_control = without_locks;
  auto transaction = std::make_unique<PessimisticTransaction>(this, write_options, options);
  BRECCIA_TRY(transaction->recover(name, &batch));
  (void)
      transaction.release();  // its name keeps it, until the user or the database's end deletes it
  return Status::OK();
}

}  // namespace breccia::facade
