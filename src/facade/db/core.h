#pragma once

#include <breccia/options.h>
#include <rocksdb/db.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/workers.h"
#include "facade/db/handles.h"
#include "facade/db/options.h"
#include "facade/db/snapshots.h"
#include "facade/db/write_gate.h"
#include "ordered/engine.h"

namespace breccia::facade {

/// What one read sees of one family.
struct Seen {
  const Family* family;
  ordered::Pin pin;
  /// In the pin; null: the family came after the snapshot, which sees nothing of it.
  const ordered::FamilyView* view;
};

/// What a Rocks is made of. Its functions, by subject, are in the .cc files beside this one.
/// Threads any, except close().
class Core {
 public:
  /// Errors  as Rocks::Open.
  static Status open(const Options& options, const std::string& name, std::unique_ptr<Core>* core);
  ~Core() { close().PermitUncheckedError(); }

  /// Closes the database; what is called later finds no handle alive.
  /// Errors  Aborted: snapshots are held, or iterators are there, nothing was done; IOError: writes
  ///         without a log could not be kept, or what was to be flushed could not be.
  Status close();

  /// Errors  InvalidArgument: the database is closed; nothing below may be used.
  [[nodiscard]] Status check_open() const { return family(default_handle()).status(); }

  [[nodiscard]] ordered::Engine& engine() const { return *engine_; }
  /// A share in the engine for an iterator: it keeps the engine open, and close() refuses while
  /// there is one.
  [[nodiscard]] std::shared_ptr<ordered::Engine> engine_for_iterator() const;
  /// close() does not mind iterators any more. They go on.
  void leave_iterators() { minds_iterators_ = false; }
  /// The database below, with a share in the engine that keeps it open.
  [[nodiscard]] std::shared_ptr<rocksdb::DB> shared_tree() const {
    return {engine_, engine_->below().db()};
  }
  [[nodiscard]] rocksdb::DB& tree() const { return *engine_->below().db(); }
  [[nodiscard]] int flush_parts() const { return engine_->options().flush_threads; }
  [[nodiscard]] Handles& handles() const { return *handles_; }
  [[nodiscard]] Handle* default_handle() const { return default_handle_.get(); }
  [[nodiscard]] Snapshots& snapshots() { return snapshots_; }
  [[nodiscard]] WriteGate& gate() { return gate_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// What the user opened the database with.
  [[nodiscard]] const rocksdb::DBOptions& given() const { return given_; }
  /// Null if the user gave none.
  [[nodiscard]] rocksdb::Statistics* user_statistics() const { return given_.statistics.get(); }

  // ---- handles ----

  /// Errors  InvalidArgument: `handle` is none of this database's.
  Result<Family*> family(const rocksdb::ColumnFamilyHandle* handle) const;
  /// The tree's handle, for calls that pass through.
  Result<rocksdb::ColumnFamilyHandle*> tree_handle(const rocksdb::ColumnFamilyHandle* handle) const;
  Result<std::vector<rocksdb::ColumnFamilyHandle*>> tree_handles(
      const std::vector<rocksdb::ColumnFamilyHandle*>& handles) const;
  /// A handle of the family `name`, which is there.
  [[nodiscard]] std::unique_ptr<Handle> make_handle(const std::string& name, Holder holder) const;
  /// The user's first handle of a family that was just made. Without memory for it the family goes
  /// again.
  /// Errors  MemoryLimit.
  Status hand_out(const tree::TreeFamily& made, rocksdb::ColumnFamilyHandle** handle) const;
  /// A handle of each family that is there and the user's.
  [[nodiscard]] std::vector<std::unique_ptr<Handle>> handles_of_all() const;

  // ---- reading ----

  /// What a read with these options sees of the family.
  /// Errors  InvalidArgument: not a handle, or not a snapshot, of this database; a timestamp.
  Result<Seen> see(const rocksdb::ReadOptions& options,
                   const rocksdb::ColumnFamilyHandle* handle) const;
  /// The two steps of see(), for reads of several families at one point.
  Result<ordered::Pin> pin_of(const rocksdb::ReadOptions& options) const;
  Result<Seen> see_at(ordered::Pin pin, const rocksdb::ColumnFamilyHandle* handle) const;
  /// True if a read must leave out what no log holds: RocksDB's persisted tier.
  [[nodiscard]] bool must_skip_memory(const rocksdb::ReadOptions& options) const {
    return options.read_tier == rocksdb::kPersistedTier && has_unlogged_.load();
  }

  // ---- writing ----

  /// Errors  those of RocksDB's Write for the options; Incomplete: no room and no_slowdown.
  ///         Where there are reads, also those of ordered::Writer::submit.
  Status write(const rocksdb::WriteOptions& options, const ordered::ReadSet& reads,
               batch::Requests* requests);
  /// The same with a batch that may hold reads and ranges, too.
  Status submit(const rocksdb::WriteOptions& options, Batch* batch);
  Status write_one(const rocksdb::WriteOptions& options, record::Op op,
                   const rocksdb::ColumnFamilyHandle* handle, const Slice& key, const Slice& value);

  /// True of families that are not there, or were dropped: what ignore_missing_column_families
  /// leaves out.
  /// Bound   waits for a drop that is under way, which may fail.
  [[nodiscard]] std::function<bool(FamilyId)> missing_families();

  /// An empty batch in memory that suits its size.
  [[nodiscard]] Batch new_batch(std::uint64_t requests) const;

  // ---- files ----

  /// Begins a flush; one that waits already serves all that ask meanwhile.
  Status flush_later();
  /// Keeps flushes from the tree, until as many calls of resume_flushes().
  void pause_flushes();
  /// False if they were not paused.
  bool resume_flushes();

 private:
  Core() = default;
  Status write_by(const rocksdb::WriteOptions& options, const batch::Requests& requests,
                  const std::function<Status(const WriteOptions&)>& run);
  void note_written(const rocksdb::WriteOptions& options, std::uint64_t keys, std::uint64_t bytes);

  std::string name_;
  rocksdb::DBOptions given_;
  std::shared_ptr<ordered::Engine> engine_;
  std::shared_ptr<Handles> handles_;
  std::unique_ptr<Handle> default_handle_;
  Snapshots snapshots_;
  WriteGate gate_;
  std::atomic<bool> has_unlogged_{false};  // there were writes with disableWAL
  std::unique_ptr<base::Workers> flusher_;
  std::atomic<bool> flush_waits_{false};
  /// Iterators that there are; shared with them.
  std::shared_ptr<std::atomic<std::uint64_t>> iterators_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  bool minds_iterators_ = true;
  std::mutex close_mutex_;
  Status close_status_;
  std::mutex pause_mutex_;
  int pauses_ = 0;
};

/// Errors  InvalidArgument: a function for timestamps was called; no family here has them.
Status no_timestamps();

}  // namespace breccia::facade
