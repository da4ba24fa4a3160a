#include <algorithm>
#include <chrono>
#include <utility>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "exec/choose.h"
#include "hash/engine/engine.h"
#include "hash/engine/intake.h"
#include "wal/log_open.h"

/// How a store of the hash engine opens and closes.

namespace breccia::hash {

namespace {

/// What a device is asked for as a cache, at least.
constexpr std::uint64_t kRowCacheMin = 512;

Numbering draw_numbering(std::uint64_t mask) {
  return {
      record::HashSeed{.start = base::draw_secret_word(), .factor = base::draw_secret_word() | 1},
      mask};
}

Result<std::unique_ptr<KeyMap>> host_map(std::uint64_t keys, const Numbering& numbering,
                                         const Status& why) {
  log(LogLevel::kError, "the index goes to the host: " + why.ToString());
  return KeyMap::make(make_host_backend(), keys, numbering);
}

}  // namespace

Status Engine::open(const HashOptions& options, const std::string& path, const Ground& ground,
                    std::unique_ptr<Engine>* engine) {
  auto made = std::unique_ptr<Engine>(new Engine);
  BRECCIA_TRY(made->start(options, path, ground));
  *engine = std::move(made);
  return Status::OK();
}

Engine::~Engine() { Close().PermitUncheckedError(); }

Status Engine::start(const HashOptions& options, const std::string& path, const Ground& ground) {
  options_ = options;
  ground_ = ground;
  if (options.row_alignment != 8 && options.row_alignment != 64) {
    return Status::InvalidArgument("row_alignment of neither 8 nor 64");
  }
  options_.log_segment_bytes = base::round_up(std::max<std::uint64_t>(options.log_segment_bytes, 1),
                                              limits::kLogWindowBytes);
  // Nor what is no number, or none that bytes can be multiplied with.
  options_.log_factor = options.log_factor >= 1 ? std::min(options.log_factor, 1e6) : 1;
  const MarkFile file(ground.disk, path);
  BRECCIA_TRY(find_mark(file, path).status());  // nothing is made where there should be a store
  if (options.create_if_missing) {
    BRECCIA_TAKE(const bool is_new, ground.files->create_dir(path));
    if (is_new) BRECCIA_TRY(ground.files->sync_dir(wal::folder_above(path)));
  }
  BRECCIA_TAKE(lock_, ground.files->lock(path));
  BRECCIA_TAKE(Mark mark, find_mark(file, path));
  if (mark.store_id == 0) {
    BRECCIA_TRY(check_is_empty(path, ground));
    mark.store_id = wal::draw_store_id();
  }
  BRECCIA_TAKE(device_, exec::choose_device(options, &no_device_));
  BRECCIA_TAKE(backend_, make_backend(device_, {.name = "hash",
                                                .bytes_max = options.device_bytes_max,
                                                .cost = exec::GiveCost::kFlush}));
  // Also one that was there: a process that was killed may have left it unsynced, and the log is
  // about to give up what it says is gone.
  BRECCIA_TRY(file.write(mark));
  // Behind the mark, which has made the step's name durable, too, if a process was killed before it
  // was; and before the log is changed.
  step_file_.emplace(ground.disk, path, mark.store_id);
  BRECCIA_TAKE(flushed_, step_file_->read());
  BRECCIA_TRY(open_log(options.wal_dir.empty() ? path + "/log" : options.wal_dir, ground, mark));
  // From now on a missing log is noticed.
  if (mark.from == 0) BRECCIA_TRY(file.write({mark.store_id, log_->begin()}));
  BRECCIA_TRY(make_row_cache());
  commits_ = std::make_unique<wal::CommitQueue>(
      log_.get(), &fault_,
      wal::CommitEnvironment{.publish =
                                 [this](wal::Ticket& ticket) {
                                   return state_->publish(static_cast<WriteTicket*>(&ticket));
                                 },
                             .visible = [this] { return state_->visible(); },
                             .note = [](const wal::CommitNote&) {}});
  cleaner_ = std::make_unique<Cleaner>(
      Cleaner::Parts{log_.get(), commits_.get(), state_.get(), &fault_, log_view_.get()}, file,
      mark.store_id, Cleaner::Room{options_.log_factor, 4 * options_.log_segment_bytes});
  cleaner_->note_written(recovery_.entries, recovery_.bytes);
  if (!ground.is_scripted) cleaner_->start();
  together_ = std::make_unique<batch::Together>(batch::Together::Engine{
      .check = check_requests,
      .submit = [this](const WriteOptions& how,
                       batch::Requests* requests) { return submit(how, {}, requests); },
      .memory = [this] { return batch_memory(); },
      .note = [](std::uint64_t) {}});
  async_ = std::make_unique<batch::AsyncQueue>(
      batch::admission_options(options),
      [this](std::span<batch::AsyncBatch> group) { together_->run(group); });
  return Status::OK();
}

/// As large as the device has memory for; a store does without one where it has none.
/// Errors  InvalidArgument: the size of its rows.
Status Engine::make_row_cache() {
  const std::uint64_t row_bytes = options_.cached_row_bytes;
  if (options_.row_cache_bytes == 0) return Status::OK();
  if (row_bytes == 0 || row_bytes % 8 != 0 || row_bytes > limits::kValueBytesMax) {
    return Status::InvalidArgument("row_cache_bytes, and cached_row_bytes of no multiple of 8");
  }
  if (!state_->knows_ids()) return Status::OK();
  Status status = Status::MemoryLimit("row_cache_bytes has room for nothing");
  for (std::uint64_t bytes = options_.row_cache_bytes; bytes >= kRowCacheMin; bytes /= 2) {
    auto made = backend_->make_cache(row_bytes, bytes, options_.row_cache_policy);
    if (made.ok()) {
      row_cache_ = made.take();
      return Status::OK();
    }
    status = made.status();
    if (!status.IsMemoryLimit()) break;
  }
  log(LogLevel::kWarning, "there is no cache of rows: " + status.ToString());
  return Status::OK();
}

/// Errors  InvalidArgument: the store is missing, or there, against the options, or something else
///         is in its place.
Result<Mark> Engine::find_mark(const MarkFile& file, const std::string& path) const {
  BRECCIA_TAKE(const Mark mark, file.read());
  if (mark.store_id != 0) {
    if (!options_.error_if_exists) return mark;
    return Status::InvalidArgument(path + " exists", "error_if_exists is set");
  }
  if (!options_.create_if_missing) {
    return Status::InvalidArgument(path + " is no store of the hash engine",
                                   "set create_if_missing, or open it with its own engine");
  }
  return mark;
}

/// Errors  InvalidArgument: there is a database, or what is left of a store of this engine.
Status Engine::check_is_empty(const std::string& path, const Ground& ground) {
  BRECCIA_TAKE(const auto names, ground.files->list(path));
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("CURRENT")) {
    return Status::InvalidArgument(
        path + " holds a RocksDB database, or a store of the ordered engine",
        "choose another folder");
  }
  // A store has its mark before its log.
  if (has("log") || has("STEP")) {
    return Status::InvalidArgument(
        path +
            " holds a log, and no file HASH: a snapshot that did not end, or a store that lost "
            "its mark",
        "remove the folder, or restore it from a copy");
  }
  return Status::OK();
}

Status Engine::open_log(const std::string& dir, const Ground& ground, const Mark& mark) {
  const auto started = std::chrono::steady_clock::now();
  wal::LogOptions log_options;
  log_options.dir = dir;
  log_options.segment_bytes = options_.log_segment_bytes;
  log_options.preallocate_bytes = options_.log_preallocate_bytes;
  log_options.keep_bytes = options_.log_keep_bytes;
  log_options.files = ground.files;
  log_options.roll_bytes = ground.roll_bytes;
  log_options.prepare_ahead = ground.is_scripted ? 0 : 1;
  log_options.store_id = mark.store_id;
  if (flushed_.has_value()) log_options.needed_end = flushed_->position;
  log_view_ = std::make_shared<LogView>(backend_);
  // A segment may outlive the engine.
  log_options.on_map = [view = log_view_](std::byte* image, std::uint64_t bytes) {
    view->map(image, bytes);
  };
  log_options.on_unmap = [view = log_view_](std::byte* image) { view->unmap(image); };
  const Numbering numbering = draw_numbering(ground.number_mask);
  const std::uint64_t keys = options_.keys_expected;
  auto map = KeyMap::make(backend_, keys, numbering);
  const bool may_go_to_host = map.ok() && !device_->is_host();
  if (!map.ok() && !device_->is_host()) map = host_map(keys, numbering, map.status());
  BRECCIA_TRY(map.status());
  wal::LogRecovery found;
  MapIntake intake(map.value().get());
  BRECCIA_TAKE(log_, wal::Log::open(log_options, mark.from, &intake, &found));
  Status filled = intake.status();
  if (!filled.ok() && may_go_to_host && !filled.IsCorruption()) {
    map = host_map(keys, numbering, filled);
    BRECCIA_TRY(map.status());
    filled = fill(*log_->table(), log_->begin(), log_->end(), map.value().get());
  }
  BRECCIA_TRY(std::move(filled));
  state_ =
      std::make_unique<State>(log_.get(), map.take(), log_->end(), keys, [this](const Status& why) {
        log(LogLevel::kError, "device retired, the index goes to the host: " + why.ToString());
        if (row_cache_ != nullptr) row_cache_->drop();  // nobody looks there any more
      });
  recovery_ = {found.frames,
               found.entries,
               found.bytes,
               found.dropped_bytes,
               std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(),
               found.message};
  if (!found.message.empty()) log(LogLevel::kWarning, found.message);
  return Status::OK();
}

Status Engine::Close() {
  const std::lock_guard lock(close_mutex_);
  if (closed_) return base::copy_of(close_status_);
  if (async_ == nullptr) return Status::OK();  // it never opened
  async_->stop();
  closed_ = true;
  cleaner_->stop();
  log_view_->stop();
  // Writes without a log are lost with the process, not with an orderly end of it.
  close_status_ = commits_->keep(/*sync=*/false);
  return base::copy_of(close_status_);
}

}  // namespace breccia::hash
