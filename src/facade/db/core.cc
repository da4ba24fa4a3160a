#include "facade/db/core.h"

#include <rocksdb/statistics.h>

#include "base/memory.h"
#include "batch/requests.h"
#include "facade/db/user_statistics.h"
#include "tree/install_gate.h"

namespace breccia::facade {

Status no_timestamps() {
  return Status::InvalidArgument(
      "cannot call this method on a column family that does not enable timestamps",
      "no column family of breccia has user-defined timestamps");
}

// ---- opening and closing -----------------------------------------------------------------------

Status Core::open(const Options& options, const std::string& name, std::unique_ptr<Core>* core) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_options(options, name));
    Options prepared = options;
    if (!prepared.wait_us_max.has_value()) prepared.wait_us_max = kWaitUsMax;
    prepared.rocksdb.statistics = without_requests(options.rocksdb.statistics);
    std::unique_ptr<ordered::Engine> engine;
    BRECCIA_TRY(ordered::Engine::open(prepared, name, &engine));
    std::unique_ptr<Core> opened(new Core);
    opened->name_ = name;
    opened->given_ = options.rocksdb;
    opened->given_.create_if_missing = options.create_if_missing;
    opened->given_.error_if_exists = options.error_if_exists;
    opened->flusher_ = std::make_unique<base::Workers>(1);
    ordered::Engine* const raw = engine.get();
    opened->handles_ = std::make_shared<Handles>(
        raw->options().flush_threads,
        Handles::Hooks{[raw](Handle* handle) { raw->listeners().handle_goes(handle); },
                       [raw](FamilyId family) { raw->tree_changes().forget_family(family); }});
    opened->engine_ = std::move(engine);  // from here on close() has something to close
    opened->default_handle_ =
        opened->make_handle(rocksdb::kDefaultColumnFamilyName, Holder::kBreccia);
    *core = std::move(opened);
    return Status::OK();
  });
}

Status Core::close() {
  const std::lock_guard lock(close_mutex_);
  if (engine_ == nullptr) return close_status_;
  if (snapshots_.figures().count > 0) {
    return Status::Aborted("Cannot close DB with unreleased snapshot.");
  }
  if (minds_iterators_ && *iterators_ > 0) {
    return Status::Aborted("Cannot close DB with an iterator that is not deleted.");
  }
  while (resume_flushes()) {
  }
  flusher_->stop();
  // What has no log would survive an orderly end, but nobody would hear of an error. Before the
  // flush, which may fail.
  if (has_unlogged_.load()) close_status_ = engine_->SyncLog();
  if (close_status_.ok() && engine_->options().flush_at_close) close_status_ = engine_->Flush();
  engine_->listeners().handle_goes(default_handle_.get());
  engine_->listeners().close();  // before the handles: a callback may use them
  handles_->close();
  engine_.reset();
  return close_status_;
}

std::shared_ptr<ordered::Engine> Core::engine_for_iterator() const {
  ++*iterators_;
  // The engine goes first: whoever sees no iterator may open the folder again.
  const auto let_go = [kept = engine_, iterators = iterators_](ordered::Engine*) mutable {
    kept.reset();
    --*iterators;
  };
  return {engine_.get(), let_go};
}

// ---- handles -----------------------------------------------------------------------------------

Result<Family*> Core::family(const rocksdb::ColumnFamilyHandle* handle) const {
  Family* const family = handles_->find(handle);
  if (family == nullptr) return not_a_handle();
  return family;
}

Result<rocksdb::ColumnFamilyHandle*> Core::tree_handle(
    const rocksdb::ColumnFamilyHandle* handle) const {
  BRECCIA_TAKE(Family* const known, family(handle));
  return known->tree();
}

Result<std::vector<rocksdb::ColumnFamilyHandle*>> Core::tree_handles(
    const std::vector<rocksdb::ColumnFamilyHandle*>& handles) const {
  std::vector<rocksdb::ColumnFamilyHandle*> of_tree;
  for (const rocksdb::ColumnFamilyHandle* handle : handles) {
    BRECCIA_TAKE(rocksdb::ColumnFamilyHandle* const one, tree_handle(handle));
    of_tree.push_back(one);
  }
  return of_tree;
}

std::unique_ptr<Handle> Core::make_handle(const std::string& name, Holder holder) const {
  for (const tree::TreeFamily& family : engine_->below().families()) {
    if (family->GetName() == name) return handles_->make(family, holder);
  }
  BRECCIA_ASSERT(false);
  return nullptr;
}

Status Core::hand_out(const tree::TreeFamily& made, rocksdb::ColumnFamilyHandle** handle) const {
  Status status = base::with_patience([&] {
    *handle = handles_->make(made, Holder::kUser).release();
    return Status::OK();
  });
  if (!status.ok()) engine_->DropFamily(made->GetID()).PermitUncheckedError();
  return status;
}

std::vector<std::unique_ptr<Handle>> Core::handles_of_all() const {
  std::vector<std::unique_ptr<Handle>> handles;
  for (const tree::TreeFamily& family : engine_->below().families()) {
    if (tree::is_reserved(family->GetName())) continue;
    handles.push_back(handles_->make(family, Holder::kBreccia));
  }
  return handles;
}

// ---- reading -----------------------------------------------------------------------------------

Result<ordered::Pin> Core::pin_of(const rocksdb::ReadOptions& options) const {
  if (options.timestamp != nullptr || options.iter_start_ts != nullptr) return no_timestamps();
  if (options.snapshot == nullptr) return engine_->pin();
  std::optional<ordered::Pin> pin = snapshots_.find(options.snapshot);
  if (!pin.has_value()) {
    return Status::InvalidArgument("not a snapshot of this database",
                                   "it belongs to another one, or was released");
  }
  return *std::move(pin);
}

Result<Seen> Core::see_at(ordered::Pin pin, const rocksdb::ColumnFamilyHandle* handle) const {
  BRECCIA_TAKE(const Family* const known, family(handle));
  Seen seen{known, known->seen_at(std::move(pin)), nullptr};
  seen.view = seen.pin.view->family(known->id());
  return seen;
}

Result<Seen> Core::see(const rocksdb::ReadOptions& options,
                       const rocksdb::ColumnFamilyHandle* handle) const {
  BRECCIA_TRY(family(handle).status());  // before the engine, which may be closed
  BRECCIA_TAKE(ordered::Pin pin, pin_of(options));
  return see_at(std::move(pin), handle);
}

// ---- writing -----------------------------------------------------------------------------------

namespace {

/// Errors  those that RocksDB's WriteImpl finds in the options.
Result<WriteOptions> engine_write_options(const rocksdb::WriteOptions& options,
                                          const rocksdb::DBOptions& given) {
  if (options.rate_limiter_priority != rocksdb::Env::IO_TOTAL &&
      options.rate_limiter_priority != rocksdb::Env::IO_USER) {
    return Status::InvalidArgument(
        "WriteOptions::rate_limiter_priority only allows Env::IO_TOTAL and Env::IO_USER");
  }
  if (options.rate_limiter_priority != rocksdb::Env::IO_TOTAL &&
      (options.disableWAL || given.manual_wal_flush)) {
    return Status::InvalidArgument(
        "WriteOptions::rate_limiter_priority needs WriteOptions::disableWAL and "
        "DBOptions::manual_wal_flush both set to false");
  }
  if (options.protection_bytes_per_key != 0 && options.protection_bytes_per_key != 8) {
    return Status::NotSupported("WriteBatch protection info must be zero or eight bytes/key");
  }
  if (options.sync && options.disableWAL) {
    return Status::InvalidArgument("Sync writes has to enable WAL.");
  }
  WriteOptions engine;
  engine.durability = options.sync         ? Durability::kSync
                      : options.disableWAL ? Durability::kNone
                                           : Durability::kDefault;
  if (options.no_slowdown) engine.wait_us_max = 0;
  return engine;
}

}  // namespace

Status Core::write(const rocksdb::WriteOptions& options, const ordered::ReadSet& reads,
                   batch::Requests* requests) {
  if (requests->write_count() == 0) {
    BRECCIA_TAKE(const WriteOptions engine_options, engine_write_options(options, given_));
    BRECCIA_TRY(engine_->writer().submit(engine_options, reads, requests));
    return options.sync ? engine_->SyncLog() : Status::OK();
  }
  return write_by(options, *requests, [&](const WriteOptions& engine_options) {
    return engine_->writer().submit(engine_options, reads, requests);
  });
}

Status Core::submit(const rocksdb::WriteOptions& options, Batch* batch) {
  return base::or_memory_limit([&] {
    return write_by(options, batch->requests(), [&](const WriteOptions& engine_options) {
      return engine_->Submit(engine_options, batch);
    });
  });
}

Status Core::write_by(const rocksdb::WriteOptions& options, const batch::Requests& requests,
                      const std::function<Status(const WriteOptions&)>& run) {
  BRECCIA_TAKE(const WriteOptions engine_options, engine_write_options(options, given_));
  const std::uint64_t count = requests.write_count();
  if (count == 0) return run(engine_options);
  // Before the write: who reads the persisted tier must not see it as logged.
  if (options.disableWAL) has_unlogged_.store(true);
  const std::uint64_t bytes = requests.record_bytes();
  const UserTimer timer(user_statistics(), rocksdb::DB_WRITE);
  const WriteGate::Pass pass(&gate_);
  Status status = run(engine_options);
  // Whoever counts must not make of what was written an error.
  if (status.ok()) base::as_memory_allows([&] { note_written(options, count, bytes); });
  return status;
}

Status Core::write_one(const rocksdb::WriteOptions& options, record::Op op,
                       const rocksdb::ColumnFamilyHandle* handle, const Slice& key,
                       const Slice& value) {
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const Family* const known, family(handle));
    batch::Requests& requests = batch::thread_requests();
    const bool is_left_out =
        options.ignore_missing_column_families && missing_families()(known->id());
    if (!is_left_out) BRECCIA_TRY(requests.add_write(op, known->id(), key, value));
    return write(options, ordered::ReadSet(), &requests);
  });
}

std::function<bool(FamilyId)> Core::missing_families() {
  const WriteGate::Pass pass(&gate_);
  return [view = engine_->pin().view](FamilyId id) {
    const ordered::FamilyView* const family = view->family(id);
    return family == nullptr || family->dropped;
  };
}

Batch Core::new_batch(std::uint64_t requests) const {
  constexpr std::uint64_t kWorthPinned = 1024;
  return requests < kWorthPinned ? Batch() : engine_->NewBatch();
}

/// Counts what RocksDB's write path counts: the tree does not see these writes.
void Core::note_written(const rocksdb::WriteOptions& options, std::uint64_t keys,
                        std::uint64_t bytes) {
  rocksdb::Statistics* const statistics = given_.statistics.get();
  if (statistics == nullptr) return;
  statistics->recordTick(rocksdb::NUMBER_KEYS_WRITTEN, keys);
  statistics->recordTick(rocksdb::BYTES_WRITTEN, bytes);
  statistics->recordInHistogram(rocksdb::BYTES_PER_WRITE, bytes);
  statistics->recordTick(rocksdb::WRITE_DONE_BY_SELF, 1);
  if (options.disableWAL) return;
  statistics->recordTick(rocksdb::WRITE_WITH_WAL, 1);
  statistics->recordTick(rocksdb::WAL_FILE_BYTES, bytes);
}

// ---- flushes -----------------------------------------------------------------------------------

Status Core::flush_later() {
  if (flush_waits_.exchange(true)) return Status::OK();
  const auto flush = [this] {
    flush_waits_.store(false);
    engine_->Flush().PermitUncheckedError();  // its cause is in breccia.read-only
  };
  Status status = base::or_memory_limit([&] { return flusher_->submit(flush); });
  if (!status.ok()) flush_waits_.store(false);
  return status;
}

void Core::pause_flushes() {
  {
    const std::lock_guard lock(pause_mutex_);
    ++pauses_;
  }
  engine_->below().gate().pause();
}

bool Core::resume_flushes() {
  const std::lock_guard lock(pause_mutex_);
  if (pauses_ == 0) return false;
  --pauses_;
  engine_->below().gate().resume();
  return true;
}

}  // namespace breccia::facade
