#pragma once

#include <breccia/rocks.h>
#include <breccia/write_batch_with_index.h>
#include <rocksdb/utilities/transaction.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "facade/db/core.h"
#include "facade/txn/read_tracker.h"
#include "ordered/read/history.h"
#include "txn/tracked_keys.h"

namespace breccia::facade {

/// What optimistic and pessimistic transactions have in common: the writes so far, which reads see,
/// save points, snapshots, and what must not have changed when they are committed.
///
/// Owner   the database lives longer.
/// Threads one owner.
class TransactionBase : public rocksdb::Transaction {
 public:
  using Handle = rocksdb::ColumnFamilyHandle;
  using Snapshot = rocksdb::Snapshot;
  using ReadOptions = rocksdb::ReadOptions;
  using SliceParts = rocksdb::SliceParts;

  TransactionBase(Rocks* rocks, bool serializable, const rocksdb::WriteOptions& write_options);

  // ---- snapshots and save points ----

  void SetSnapshot() override;
  void SetSnapshotOnNextOperation(std::shared_ptr<rocksdb::TransactionNotifier> notifier) override;
  [[nodiscard]] const Snapshot* GetSnapshot() const override { return snapshot_.get(); }
  [[nodiscard]] std::shared_ptr<const Snapshot> GetTimestampedSnapshot() const override {
    return nullptr;
  }
  void ClearSnapshot() override;
  void SetSavePoint() override;
  Status RollbackToSavePoint() override;
  Status PopSavePoint() override;

  // ---- reading ----

  Status Get(const ReadOptions& options, Handle* handle, const Slice& key,
             std::string* value) override;
  Status Get(const ReadOptions& options, Handle* handle, const Slice& key,
             rocksdb::PinnableSlice* value) override;
  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override;
  Status Get(const ReadOptions& options, const Slice& key, rocksdb::PinnableSlice* value) override;
  std::vector<Status> MultiGet(const ReadOptions& options, const std::vector<Handle*>& handles,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values) override;
  std::vector<Status> MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                               std::vector<std::string>* values) override;
  void MultiGet(const ReadOptions& options, Handle* handle, std::size_t count, const Slice* keys,
                rocksdb::PinnableSlice* values, Status* statuses, bool sorted_input) override;
  Status GetForUpdate(const ReadOptions& options, Handle* handle, const Slice& key,
                      std::string* value, bool exclusive, bool do_validate) override;
  Status GetForUpdate(const ReadOptions& options, Handle* handle, const Slice& key,
                      rocksdb::PinnableSlice* value, bool exclusive, bool do_validate) override;
  Status GetForUpdate(const ReadOptions& options, const Slice& key, std::string* value,
                      bool exclusive, bool do_validate) override;
  std::vector<Status> MultiGetForUpdate(const ReadOptions& options,
                                        const std::vector<Handle*>& handles,
                                        const std::vector<Slice>& keys,
                                        std::vector<std::string>* values) override;
  std::vector<Status> MultiGetForUpdate(const ReadOptions& options, const std::vector<Slice>& keys,
                                        std::vector<std::string>* values) override;
  rocksdb::Iterator* GetIterator(const ReadOptions& options) override;
  rocksdb::Iterator* GetIterator(const ReadOptions& options, Handle* handle) override;

  // ---- writing ----

  Status Put(Handle* handle, const Slice& key, const Slice& value, bool assume_tracked) override;
  Status Put(const Slice& key, const Slice& value) override;
  Status Put(Handle* handle, const SliceParts& key, const SliceParts& value,
             bool assume_tracked) override;
  Status Put(const SliceParts& key, const SliceParts& value) override;
  Status Merge(Handle* handle, const Slice& key, const Slice& value, bool assume_tracked) override;
  Status Merge(const Slice& key, const Slice& value) override;
  Status Delete(Handle* handle, const Slice& key, bool assume_tracked) override;
  Status Delete(const Slice& key) override;
  Status Delete(Handle* handle, const SliceParts& key, bool assume_tracked) override;
  Status Delete(const SliceParts& key) override;
  Status SingleDelete(Handle* handle, const Slice& key, bool assume_tracked) override;
  Status SingleDelete(const Slice& key) override;
  Status SingleDelete(Handle* handle, const SliceParts& key, bool assume_tracked) override;
  Status SingleDelete(const SliceParts& key) override;
  Status PutUntracked(Handle* handle, const Slice& key, const Slice& value) override;
  Status PutUntracked(const Slice& key, const Slice& value) override;
  Status PutUntracked(Handle* handle, const SliceParts& key, const SliceParts& value) override;
  Status PutUntracked(const SliceParts& key, const SliceParts& value) override;
  Status MergeUntracked(Handle* handle, const Slice& key, const Slice& value) override;
  Status MergeUntracked(const Slice& key, const Slice& value) override;
  Status DeleteUntracked(Handle* handle, const Slice& key) override;
  Status DeleteUntracked(const Slice& key) override;
  Status DeleteUntracked(Handle* handle, const SliceParts& key) override;
  Status DeleteUntracked(const SliceParts& key) override;
  Status SingleDeleteUntracked(Handle* handle, const Slice& key) override;
  Status SingleDeleteUntracked(const Slice& key) override;
  void PutLogData(const Slice& blob) override;
  void DisableIndexing() override { indexing_ = false; }
  void EnableIndexing() override { indexing_ = true; }

  // ---- figures and the rest ----

  [[nodiscard]] std::uint64_t GetNumKeys() const override { return tracked_.count(); }
  [[nodiscard]] std::uint64_t GetNumPuts() const override { return counts_.puts; }
  [[nodiscard]] std::uint64_t GetNumDeletes() const override { return counts_.deletes; }
  [[nodiscard]] std::uint64_t GetNumMerges() const override { return counts_.merges; }
  [[nodiscard]] std::uint64_t GetElapsedTime() const override;
  rocksdb::WriteBatchWithIndex* GetWriteBatch() override { return batch_.get(); }
  rocksdb::WriteOptions* GetWriteOptions() override { return &write_options_; }
  void SetWriteOptions(const rocksdb::WriteOptions& options) override { write_options_ = options; }
  void UndoGetForUpdate(Handle* handle, const Slice& key) override;
  void UndoGetForUpdate(const Slice& key) override;
  Status RebuildFromWriteBatch(rocksdb::WriteBatch* batch) override;
  rocksdb::WriteBatch* GetCommitTimeWriteBatch() override { return &commit_time_batch_; }

 protected:
  /// How an operation treats its key.
  struct Tracking {
    bool read_only;
    bool exclusive;
    bool do_validate;
    bool assume_tracked;
  };

  /// Locks the key, or notes it for the commit; what the operation needs before it happens.
  virtual Status try_lock(FamilyId family, const std::string& key, const Tracking& how) = 0;
  /// The key is tracked no more.
  virtual void unlock(FamilyId family, const std::string& key) = 0;

  /// Forgets writes, save points and what is tracked; snapshot and options stay.
  void clear();
  /// As new.
  void reinitialize(const rocksdb::WriteOptions& write_options);

  void track(FamilyId family, const std::string& key, std::uint64_t since, const Tracking& how);
  /// Does again what `batch` does.
  /// Errors  InvalidArgument: a family is not there, unless such writes are skipped; those of the
  ///         writes.
  Status rebuild(rocksdb::WriteBatch* batch, bool skips_missing_families);
  /// Sets the snapshot that was asked for with the next operation.
  void set_snapshot_if_needed();
  /// Keeps what tells whether something was written since `since`.
  void hold_history(std::uint64_t since);
  /// Where the database is now.
  [[nodiscard]] std::uint64_t now() const { return core_.engine().pin().visible; }
  /// The same, held: held first, so that no flush comes between.
  [[nodiscard]] std::uint64_t hold_now() {
    hold_history(now());
    return now();
  }
  /// Writes the batches if nothing was written to what this transaction has read, where it is
  /// serializable, and to `keys`.
  /// Errors  also those of ordered::Writer::submit.
  Status write(std::span<const rocksdb::WriteBatch* const> batches, const txn::TrackedKeys& keys);

  struct SavePoint;

  Rocks* const rocks_;
  Core& core_;
  const bool serializable_;
  rocksdb::WriteOptions write_options_;
  std::unique_ptr<WriteBatchWithIndex> batch_;
  rocksdb::WriteBatch commit_time_batch_;
  std::shared_ptr<const Snapshot> snapshot_;
  bool snapshot_needed_ = false;
  std::shared_ptr<rocksdb::TransactionNotifier> notifier_;
  txn::TrackedKeys tracked_;
  ReadTracker reads_;  // of a serializable transaction
  std::vector<SavePoint> save_points_;
  std::chrono::steady_clock::time_point started_;

 private:
  enum class Kind { kPut, kMerge, kDelete, kSingleDelete };
  struct Counts {
    std::uint64_t puts = 0;
    std::uint64_t deletes = 0;
    std::uint64_t merges = 0;
  };

  [[nodiscard]] Handle* or_default(Handle* handle) const {
    return handle != nullptr ? handle : rocks_->DefaultColumnFamily();
  }
  Status write_key(Kind kind, Handle* handle, const Slice& key, const Slice& value,
                   const Tracking& how);
  Status lock_for_read(const ReadOptions& options, Handle* handle, const Slice& key, bool exclusive,
                       bool do_validate);
  /// Where a read with `options` that begins now looks, held.
  [[nodiscard]] std::uint64_t hold_position_of(const ReadOptions& options);
  void note_read(const ReadOptions& options, Handle* handle, const Slice& key);

  Counts counts_;
  bool indexing_ = true;
  ordered::History::Hold history_;
};

struct TransactionBase::SavePoint {
  std::shared_ptr<const Snapshot> snapshot;
  bool snapshot_needed;
  std::shared_ptr<rocksdb::TransactionNotifier> notifier;
  Counts counts;
  txn::TrackedKeys since;  // what was tracked after it
};

}  // namespace breccia::facade
