#include "facade/txn/transaction.h"

#include <rocksdb/comparator.h>

#include <map>

#include "base/limits.h"
#include "base/memory.h"
#include "facade/db/write_batches.h"

/// What optimistic and locking transactions share: a WriteBatchWithIndex of what they wrote, save
/// points, a snapshot, and what they track: keys with the position as of which they were seen.
/// Reads see the transaction's own writes above the store. The parts come in that order.

namespace breccia::facade {

TransactionBase::TransactionBase(Rocks* rocks, bool serializable,
                                 const rocksdb::WriteOptions& write_options)
    : rocks_(rocks), core_(rocks->core()), serializable_(serializable) {
  reinitialize(write_options);
}

void TransactionBase::reinitialize(const rocksdb::WriteOptions& write_options) {
  write_options_ = write_options;
  batch_ = std::make_unique<WriteBatchWithIndex>(rocksdb::BytewiseComparator(), 0,
                                                 /*overwrite_key=*/true, 0,
                                                 write_options.protection_bytes_per_key);
  ClearSnapshot();
  clear();
  id_ = 0;
  name_.clear();
  indexing_ = true;
  started_ = std::chrono::steady_clock::now();
}

void TransactionBase::clear() {
  save_points_.clear();
  batch_->Clear();
  commit_time_batch_.Clear();
  tracked_.clear();
  reads_.clear();
  counts_ = {};
  // What is tracked later is validated from the snapshot on. Holding more than that does no harm,
  // and what was committed must not end in an error.
  if (snapshot_ != nullptr) {
    base::as_memory_allows([this] { history_.keep_since(snapshot_->GetSequenceNumber()); });
  } else {
    history_.release();
  }
}

// ---- snapshots and save points -----------------------------------------------------------------

void TransactionBase::SetSnapshot() {
  if (core_.check_open().ok()) {  // else the next operation will say so
    hold_history(now());
    const Snapshot* const taken = rocks_->GetSnapshot();
    snapshot_.reset(taken, [rocks = rocks_](const Snapshot* one) { rocks->ReleaseSnapshot(one); });
  }
  // Not before: what finds no memory has not happened.
  snapshot_needed_ = false;
  notifier_ = nullptr;
}

void TransactionBase::SetSnapshotOnNextOperation(
    std::shared_ptr<rocksdb::TransactionNotifier> notifier) {
  snapshot_needed_ = true;
  notifier_ = std::move(notifier);
}

void TransactionBase::set_snapshot_if_needed() {
  if (!snapshot_needed_) return;
  const auto notifier = notifier_;
  SetSnapshot();
  if (notifier != nullptr) notifier->SnapshotCreated(GetSnapshot());
}

void TransactionBase::ClearSnapshot() {
  snapshot_.reset();
  snapshot_needed_ = false;
  notifier_ = nullptr;
}

void TransactionBase::SetSavePoint() {
  save_points_.push_back({snapshot_, snapshot_needed_, notifier_, counts_, {}});
  batch_->SetSavePoint();
}

Status TransactionBase::RollbackToSavePoint() {
  if (save_points_.empty()) return Status::NotFound();
  SavePoint& point = save_points_.back();
  snapshot_ = point.snapshot;
  snapshot_needed_ = point.snapshot_needed;
  notifier_ = point.notifier;
  counts_ = point.counts;
  tracked_.subtract(point.since);
  save_points_.pop_back();
  return base::or_memory_limit([this] { return batch_->RollbackToSavePoint(); });
}

Status TransactionBase::PopSavePoint() {
  if (save_points_.empty()) return Status::NotFound();
  return base::or_memory_limit([this] {
    const auto last = save_points_.rbegin();
    if (save_points_.size() > 1) std::next(last)->since.add(last->since);
    save_points_.pop_back();
    return batch_->PopSavePoint();
  });
}

// ---- tracking ----------------------------------------------------------------------------------

void TransactionBase::hold_history(std::uint64_t since) {
  if (!history_.held() || since < history_.since()) history_ = core_.engine().hold(since);
}

void TransactionBase::track(FamilyId family, const std::string& key, std::uint64_t since,
                            const Tracking& how) {
  tracked_.track(family, key, since, how.read_only, how.exclusive);
  if (!save_points_.empty()) {
    save_points_.back().since.track(family, key, since, how.read_only, how.exclusive);
  }
}

void TransactionBase::UndoGetForUpdate(Handle* handle, const Slice& key) {
  // What stays tracked for want of memory, the transaction's end gives back.
  base::as_memory_allows([&] {
    auto family = core_.family(or_default(handle));
    if (!family.ok()) return;
    const FamilyId id = family.value()->id();
    const std::string name = key.ToString();
    using Untracked = txn::TrackedKeys::Untracked;
    if (!save_points_.empty() &&
        save_points_.back().since.untrack_read(id, name) == Untracked::kNone) {
      return;
    }
    if (tracked_.untrack_read(id, name) == Untracked::kLast) unlock(id, name);
  });
}

void TransactionBase::UndoGetForUpdate(const Slice& key) { UndoGetForUpdate(nullptr, key); }

std::uint64_t TransactionBase::hold_position_of(const ReadOptions& options) {
  auto pin = core_.pin_of(options);
  if (options.snapshot == nullptr || !pin.ok()) return hold_now();  // not ok: the read will say so
  hold_history(pin.value().visible);
  return pin.value().visible;
}

// Before the read: what is written in between counts as a change, and none is missed.
void TransactionBase::note_read(const ReadOptions& options, Handle* handle, const Slice& key) {
  if (!serializable_) return;
  auto family = core_.family(handle);
  if (!family.ok()) return;  // the read will say so
  reads_.track(family.value()->id(), key.ToString(), hold_position_of(options));
}

// ---- reading -----------------------------------------------------------------------------------

Status TransactionBase::Get(const ReadOptions& options, Handle* handle, const Slice& key,
                            rocksdb::PinnableSlice* value) {
  return base::or_memory_limit([&] {
    handle = or_default(handle);
    BRECCIA_TRY(core_.family(handle).status());
    note_read(options, handle, key);
    return batch_->GetFromBatchAndDB(rocks_, options, handle, key, value);
  });
}

namespace {

/// Calls `get` with a pinned value for *value.
template <class Get>
Status get_string(std::string* value, const Get& get) {
  rocksdb::PinnableSlice pinned(value);
  BRECCIA_TRY(get(&pinned));
  return base::or_memory_limit([&] {
    if (pinned.IsPinned()) value->assign(pinned.data(), pinned.size());
    return Status::OK();
  });
}

}  // namespace

Status TransactionBase::Get(const ReadOptions& options, Handle* handle, const Slice& key,
                            std::string* value) {
  return get_string(value, [&](auto* pinned) { return Get(options, handle, key, pinned); });
}

Status TransactionBase::Get(const ReadOptions& options, const Slice& key, std::string* value) {
  return Get(options, nullptr, key, value);
}

Status TransactionBase::Get(const ReadOptions& options, const Slice& key,
                            rocksdb::PinnableSlice* value) {
  return Get(options, nullptr, key, value);
}

std::vector<Status> TransactionBase::MultiGet(const ReadOptions& options,
                                              const std::vector<Handle*>& handles,
                                              const std::vector<Slice>& keys,
                                              std::vector<std::string>* values) {
  values->resize(keys.size());
  std::vector<Status> statuses(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    statuses[i] = Get(options, handles[i], keys[i], &(*values)[i]);
  }
  return statuses;
}

std::vector<Status> TransactionBase::MultiGet(const ReadOptions& options,
                                              const std::vector<Slice>& keys,
                                              std::vector<std::string>* values) {
  return MultiGet(options, std::vector<Handle*>(keys.size()), keys, values);
}

void TransactionBase::MultiGet(const ReadOptions& options, Handle* handle, std::size_t count,
                               const Slice* keys, rocksdb::PinnableSlice* values, Status* statuses,
                               bool sorted_input) {
  handle = or_default(handle);
  const Status noted = base::or_memory_limit([&] {
    BRECCIA_TRY(core_.family(handle).status());
    for (std::size_t i = 0; i < count; ++i) note_read(options, handle, keys[i]);
    return Status::OK();
  });
  if (!noted.ok()) {
    for (std::size_t i = 0; i < count; ++i) statuses[i] = base::copy_of(noted);
    return;
  }
  batch_->MultiGetFromBatchAndDB(rocks_, options, handle, count, keys, values, statuses,
                                 sorted_input);
}

Status TransactionBase::lock_for_read(const ReadOptions& options, Handle* handle, const Slice& key,
                                      bool exclusive, bool do_validate) {
  if (!do_validate && options.snapshot != nullptr) {
    return Status::InvalidArgument(
        "If do_validate is false then GetForUpdate with snapshot is not defined.");
  }
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const Family* const family, core_.family(or_default(handle)));
    return try_lock(family->id(), key.ToString(),
                    {/*read_only=*/true, exclusive, do_validate, /*assume_tracked=*/false});
  });
}

Status TransactionBase::GetForUpdate(const ReadOptions& options, Handle* handle, const Slice& key,
                                     std::string* value, bool exclusive, bool do_validate) {
  if (value == nullptr) return lock_for_read(options, handle, key, exclusive, do_validate);
  return get_string(value, [&](auto* pinned) {
    return GetForUpdate(options, handle, key, pinned, exclusive, do_validate);
  });
}

Status TransactionBase::GetForUpdate(const ReadOptions& options, Handle* handle, const Slice& key,
                                     rocksdb::PinnableSlice* value, bool exclusive,
                                     bool do_validate) {
  BRECCIA_TRY(lock_for_read(options, handle, key, exclusive, do_validate));
  if (value == nullptr) return Status::OK();
  handle = or_default(handle);
  return base::or_memory_limit([&] {
    // What was just tracked needs to be noted only if it is read at another point in time.
    if (!do_validate || options.snapshot != nullptr) note_read(options, handle, key);
    return batch_->GetFromBatchAndDB(rocks_, options, handle, key, value);
  });
}

Status TransactionBase::GetForUpdate(const ReadOptions& options, const Slice& key,
                                     std::string* value, bool exclusive, bool do_validate) {
  return GetForUpdate(options, nullptr, key, value, exclusive, do_validate);
}

std::vector<Status> TransactionBase::MultiGetForUpdate(const ReadOptions& options,
                                                       const std::vector<Handle*>& handles,
                                                       const std::vector<Slice>& keys,
                                                       std::vector<std::string>* values) {
  values->resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Status status =
        lock_for_read(ReadOptions(), handles[i], keys[i], /*exclusive=*/true, /*do_validate=*/true);
    if (!status.ok()) return std::vector<Status>(keys.size(), status);
  }
  return MultiGet(options, handles, keys, values);
}

std::vector<Status> TransactionBase::MultiGetForUpdate(const ReadOptions& options,
                                                       const std::vector<Slice>& keys,
                                                       std::vector<std::string>* values) {
  return MultiGetForUpdate(options, std::vector<Handle*>(keys.size()), keys, values);
}

rocksdb::Iterator* TransactionBase::GetIterator(const ReadOptions& options) {
  return GetIterator(options, nullptr);
}

rocksdb::Iterator* TransactionBase::GetIterator(const ReadOptions& options, Handle* handle) {
  handle = or_default(handle);
  auto family = core_.family(handle);
  if (!family.ok()) return rocksdb::NewErrorIterator(family.status());
  // Before the iterator sees anything.
  const std::uint64_t since = serializable_ ? hold_position_of(options) : 0;
  std::unique_ptr<rocksdb::Iterator> merged(
      batch_->NewIteratorWithBase(handle, rocks_->NewIterator(options, handle), &options));
  if (!serializable_) return merged.release();
  return make_tracking_iterator(std::move(merged), options.iterate_lower_bound,
                                options.iterate_upper_bound, family.value()->id(), since, &reads_);
}

// ---- writing -----------------------------------------------------------------------------------

namespace {

constexpr bool kRead = true;
constexpr bool kExclusive = true;

std::string joined(const rocksdb::SliceParts& parts) {
  std::string whole;
  for (int i = 0; i < parts.num_parts; ++i) {
    whole.append(parts.parts[i].data(), parts.parts[i].size());
  }
  return whole;
}

}  // namespace

Status TransactionBase::write_key(Kind kind, Handle* handle, const Slice& key, const Slice& value,
                                  const Tracking& how) {
  return base::or_memory_limit([&] {
    handle = or_default(handle);
    BRECCIA_TAKE(const Family* const family, core_.family(handle));
    if (key.size() > limits::kKeyBytesMax) {
      return Status::InvalidArgument("key of " + std::to_string(key.size()) + " bytes",
                                     "a key may have " + std::to_string(limits::kKeyBytesMax));
    }
    BRECCIA_TRY(try_lock(family->id(), key.ToString(), how));
    rocksdb::WriteBatchBase* to = batch_.get();
    if (!indexing_) to = batch_->GetWriteBatch();
    switch (kind) {
      case Kind::kPut:
        BRECCIA_TRY(to->Put(handle, key, value));
        ++counts_.puts;
        break;
      case Kind::kMerge:
        BRECCIA_TRY(to->Merge(handle, key, value));
        ++counts_.merges;
        break;
      case Kind::kDelete:
        BRECCIA_TRY(to->Delete(handle, key));
        ++counts_.deletes;
        break;
      case Kind::kSingleDelete:
        BRECCIA_TRY(to->SingleDelete(handle, key));
        ++counts_.deletes;
        break;
    }
    return Status::OK();
  });
}

Status TransactionBase::Put(Handle* handle, const Slice& key, const Slice& value,
                            bool assume_tracked) {
  return write_key(Kind::kPut, handle, key, value,
                   {!kRead, kExclusive, !assume_tracked, assume_tracked});
}
Status TransactionBase::Put(const Slice& key, const Slice& value) {
  return Put(nullptr, key, value, false);
}
Status TransactionBase::Put(Handle* handle, const SliceParts& key, const SliceParts& value,
                            bool assume_tracked) {
  return base::or_memory_limit(
      [&] { return Put(handle, joined(key), joined(value), assume_tracked); });
}
Status TransactionBase::Put(const SliceParts& key, const SliceParts& value) {
  return Put(nullptr, key, value, false);
}

Status TransactionBase::Merge(Handle* handle, const Slice& key, const Slice& value,
                              bool assume_tracked) {
  return write_key(Kind::kMerge, handle, key, value,
                   {!kRead, kExclusive, !assume_tracked, assume_tracked});
}
Status TransactionBase::Merge(const Slice& key, const Slice& value) {
  return Merge(nullptr, key, value, false);
}

Status TransactionBase::Delete(Handle* handle, const Slice& key, bool assume_tracked) {
  return write_key(Kind::kDelete, handle, key, Slice(),
                   {!kRead, kExclusive, !assume_tracked, assume_tracked});
}
Status TransactionBase::Delete(const Slice& key) { return Delete(nullptr, key, false); }
Status TransactionBase::Delete(Handle* handle, const SliceParts& key, bool assume_tracked) {
  return base::or_memory_limit([&] { return Delete(handle, joined(key), assume_tracked); });
}
Status TransactionBase::Delete(const SliceParts& key) { return Delete(nullptr, key, false); }

Status TransactionBase::SingleDelete(Handle* handle, const Slice& key, bool assume_tracked) {
  return write_key(Kind::kSingleDelete, handle, key, Slice(),
                   {!kRead, kExclusive, !assume_tracked, assume_tracked});
}
Status TransactionBase::SingleDelete(const Slice& key) { return SingleDelete(nullptr, key, false); }
Status TransactionBase::SingleDelete(Handle* handle, const SliceParts& key, bool assume_tracked) {
  return base::or_memory_limit([&] { return SingleDelete(handle, joined(key), assume_tracked); });
}
Status TransactionBase::SingleDelete(const SliceParts& key) {
  return SingleDelete(nullptr, key, false);
}

Status TransactionBase::PutUntracked(Handle* handle, const Slice& key, const Slice& value) {
  return write_key(Kind::kPut, handle, key, value, {!kRead, kExclusive, false, false});
}
Status TransactionBase::PutUntracked(const Slice& key, const Slice& value) {
  return PutUntracked(nullptr, key, value);
}
Status TransactionBase::PutUntracked(Handle* handle, const SliceParts& key,
                                     const SliceParts& value) {
  return base::or_memory_limit([&] { return PutUntracked(handle, joined(key), joined(value)); });
}
Status TransactionBase::PutUntracked(const SliceParts& key, const SliceParts& value) {
  return PutUntracked(nullptr, key, value);
}

Status TransactionBase::MergeUntracked(Handle* handle, const Slice& key, const Slice& value) {
  return write_key(Kind::kMerge, handle, key, value, {!kRead, kExclusive, false, false});
}
Status TransactionBase::MergeUntracked(const Slice& key, const Slice& value) {
  return MergeUntracked(nullptr, key, value);
}

Status TransactionBase::DeleteUntracked(Handle* handle, const Slice& key) {
  return write_key(Kind::kDelete, handle, key, Slice(), {!kRead, kExclusive, false, false});
}
Status TransactionBase::DeleteUntracked(const Slice& key) { return DeleteUntracked(nullptr, key); }
Status TransactionBase::DeleteUntracked(Handle* handle, const SliceParts& key) {
  return base::or_memory_limit([&] { return DeleteUntracked(handle, joined(key)); });
}
Status TransactionBase::DeleteUntracked(const SliceParts& key) {
  return DeleteUntracked(nullptr, key);
}

Status TransactionBase::SingleDeleteUntracked(Handle* handle, const Slice& key) {
  return write_key(Kind::kSingleDelete, handle, key, Slice(), {!kRead, kExclusive, false, false});
}
Status TransactionBase::SingleDeleteUntracked(const Slice& key) {
  return SingleDeleteUntracked(nullptr, key);
}

void TransactionBase::PutLogData(const Slice& blob) {
  batch_->PutLogData(blob).PermitUncheckedError();
}

namespace {

/// Does again in a transaction what a batch does.
class Replay final : public rocksdb::WriteBatch::Handler {
 public:
  Replay(rocksdb::Transaction* transaction, const Core& core, bool skips_missing_families)
      : transaction_(transaction), skips_missing_families_(skips_missing_families) {
    for (auto& handle : core.handles_of_all()) {
      const std::uint32_t id = handle->GetID();
      handles_[id] = std::move(handle);
    }
  }

  Status PutCF(FamilyId family, const Slice& key, const Slice& value) override {
    return with(family, [&](auto* handle) { return transaction_->Put(handle, key, value); });
  }
  Status DeleteCF(FamilyId family, const Slice& key) override {
    return with(family, [&](auto* handle) { return transaction_->Delete(handle, key); });
  }
  Status SingleDeleteCF(FamilyId family, const Slice& key) override {
    return with(family, [&](auto* handle) { return transaction_->SingleDelete(handle, key); });
  }
  Status MergeCF(FamilyId family, const Slice& key, const Slice& operand) override {
    return with(family, [&](auto* handle) { return transaction_->Merge(handle, key, operand); });
  }
  Status MarkBeginPrepare(bool) override { return Status::InvalidArgument(); }
  Status MarkEndPrepare(const Slice&) override { return Status::InvalidArgument(); }
  Status MarkCommit(const Slice&) override { return Status::InvalidArgument(); }
  Status MarkCommitWithTimestamp(const Slice&, const Slice&) override {
    return Status::InvalidArgument();
  }
  Status MarkRollback(const Slice&) override { return Status::InvalidArgument(); }

 private:
  template <class Work>
  Status with(FamilyId family, const Work& work) {
    const auto at = handles_.find(family);
    if (at != handles_.end()) return work(at->second.get());
    if (skips_missing_families_) return Status::OK();
    return Status::InvalidArgument("Invalid column family specified in write batch");
  }

  rocksdb::Transaction* const transaction_;
  const bool skips_missing_families_;
  std::map<FamilyId, std::unique_ptr<Handle>> handles_;
};

}  // namespace

Status TransactionBase::RebuildFromWriteBatch(rocksdb::WriteBatch* batch) {
  return rebuild(batch, /*skips_missing_families=*/false);
}

Status TransactionBase::rebuild(rocksdb::WriteBatch* batch, bool skips_missing_families) {
  BRECCIA_TRY(core_.check_open());
  return base::or_memory_limit([&] {
    Replay replay(this, core_, skips_missing_families);
    return batch->Iterate(&replay);
  });
}

// ---- committing --------------------------------------------------------------------------------

Status TransactionBase::write(std::span<const rocksdb::WriteBatch* const> batches,
                              const txn::TrackedKeys& keys) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(core_.check_open());
    OwnedReadSet reads;
    if (!reads.add(keys) || !reads_.add_to(&reads)) {
      return Status::MemoryLimit("no memory to validate the transaction");
    }
    return write_batches(&core_, write_options_, reads.set(), batches);
  });
}

std::uint64_t TransactionBase::GetElapsedTime() const {
  const auto elapsed = std::chrono::steady_clock::now() - started_;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count());
}

}  // namespace breccia::facade
