#include <spdlog/spdlog.h>
#include <tbb/info.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "rocks/engine.h"
#include "rocks/recover.h"

/// Opening and closing the ordered engine.

namespace breccia::rocks {

namespace {

std::uint64_t machine_memory_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Options with every "0: chosen" replaced by what is chosen.
Options with_defaults(Options options) {
  constexpr std::uint64_t kMiB = 1 << 20;
  if (options.memtable_bytes == 0) {
    options.memtable_bytes = std::clamp(machine_memory_bytes() / 8, 512 * kMiB, 16'384 * kMiB);
  }
  options.memtable_bytes = std::min(options.memtable_bytes, limits::kMemtableBytesMax);
  options.log_segment_bytes = base::round_up(std::max<std::uint64_t>(options.log_segment_bytes, 1),
                                             limits::kLogWindowBytes);
  if (options.flush_threads <= 0) {
    options.flush_threads = std::clamp(tbb::info::default_concurrency(), 1, 8);
  }
  if (options.log_files == nullptr) options.log_files = wal::real_files();
  return options;
}

bool is_same_folder(const std::string& a, const std::string& b) {
  const auto plain = [](const std::string& folder) {
    std::error_code ignored;  // What cannot be looked up is empty, and reported when it is opened.
    return std::filesystem::weakly_canonical(std::filesystem::path(folder) / "", ignored);
  };
  return !plain(a).empty() && plain(a) == plain(b);
}

}  // namespace

Status Engine::open(const Options& options, const std::string& path,
                    std::unique_ptr<Store>* store) {
  std::unique_ptr<Engine> engine(new Engine);
  BRECCIA_TRY(engine->start(options, path));
  *store = std::move(engine);
  return Status::OK();
}

Engine::~Engine() {
  if (workers_ != nullptr) workers_->stop();
  if (maintenance_ != nullptr) maintenance_->stop();
  // Writes without a log are lost with the process, not with an orderly end of it.
  if (commits_ != nullptr && fault_.get().ok()) {
    log_->commit(state_.visible(), /*sync=*/false).PermitUncheckedError();
  }
}

Status Engine::start(const Options& options, const std::string& path) {
  if (options.rocksdb.comparator != rocksdb::BytewiseComparator()) {
    return Status::InvalidArgument(
        std::string("the comparator ") + options.rocksdb.comparator->Name(),
        "keys are ordered by their bytes; use the default comparator");
  }
  if (!options.wal_dir.empty() && is_same_folder(options.wal_dir, path)) {
    return Status::InvalidArgument(
        "wal_dir is the store's own folder",
        "RocksDB would take the log's files for its; use a folder in it, or elsewhere");
  }
  options_ = with_defaults(options);
  BRECCIA_TRY(choose_backend());
  BRECCIA_TAKE(below_, Below::open(options_, path, options_.flush_threads));
  BRECCIA_TRY(open_log(path));
  reader_ = std::make_unique<Reader>(backends_.get(), below_.get(), [this] {
    const std::lock_guard lock(commits_->publish_lock());
    leave_device_locked().PermitUncheckedError();  // the reader goes on with a view of its own
  });
  commits_ = std::make_unique<CommitQueue>(log_.get(), &fault_,
                                           [this](Ticket& ticket) { return publish(ticket); });
  start_maintenance();
  workers_ = std::make_unique<Workers>(std::clamp(tbb::info::default_concurrency(), 2, 16));
  return Status::OK();
}

Status Engine::choose_backend() {
  std::shared_ptr<exec::Backend> backend = options_.backend_override;
  if (backend == nullptr) {
    switch (options_.backend) {
      case BackendChoice::kHost:
        backend = exec::make_host_backend();
        break;
      case BackendChoice::kSimulator:
        backend = exec::make_simulator_backend(options_.simulator_seed);
        break;
      case BackendChoice::kAuto:
      case BackendChoice::kCuda: {
        auto cuda = exec::make_cuda_backend(options_.device_bytes_max);
        if (cuda.ok()) {
          backend = cuda.take();
        } else if (options_.backend == BackendChoice::kCuda) {
          return cuda.status();
        } else {
          spdlog::info("no GPU in use ({}): the host backend runs", cuda.status().ToString());
          backend = exec::make_host_backend();
        }
        break;
      }
    }
  }
  // A device lookup costs 20 us for the first key and next to nothing for more; a CPU lookup about
  // 0.3 us a key. A written run costs a slot among the runs to search, so it should be larger.
  constexpr std::uint64_t kReadsMin = 128;
  constexpr std::uint64_t kHostWritesMin = 128;
  constexpr std::uint64_t kDeviceWritesMin = 2048;
  const bool on_device = backend->kind() == exec::BackendKind::kCuda;
  const std::uint64_t chosen = options_.device_requests_min;
  reads_min_ = chosen != 0 ? chosen : kReadsMin;
  writes_min_ = chosen != 0 ? chosen : on_device ? kDeviceWritesMin : kHostWritesMin;
  backends_ = std::make_unique<BackendSlot>(std::move(backend));
  return Status::OK();
}

Status Engine::open_log(const std::string& path) {
  const auto started = std::chrono::steady_clock::now();
  const auto backend = backends_->current();
  wal::LogOptions log_options;
  log_options.dir = options_.wal_dir.empty() ? path + "/log" : options_.wal_dir;
  log_options.segment_bytes = options_.log_segment_bytes;
  log_options.preallocate_bytes = options_.log_preallocate_bytes;
  log_options.files = options_.log_files;
  log_options.store_id = below_->store_id();
  log_options.on_map = [backend](std::byte* image, std::uint64_t bytes) {
    (void)backend->adopt(image, bytes);  // if it cannot, its results go through staging
  };
  log_options.on_unmap = [backend](std::byte* image) { backend->disown(image); };
  std::vector<wal::RecoveredFrame> frames;
  wal::LogRecovery found;
  const std::uint64_t applied = below_->applied();
  BRECCIA_TAKE(log_, wal::Log::open(
                         log_options, applied,
                         [&](const wal::RecoveredFrame& frame) {
                           frames.push_back(frame);
                           return Status::OK();
                         },
                         &found));
  // A new store's tree learns where its log begins: from now on a missing log is noticed.
  if (applied == 0) BRECCIA_TRY(below_->ingest({}, log_->begin()));

  auto runs = recover_runs(frames, below_->applied(), *backend);
  if (!runs.ok() && !backends_->is_host(*backend)) {
    backends_->retire(*backend, runs.status());
    runs = recover_runs(frames, below_->applied(), backends_->host());
  }
  BRECCIA_TRY(runs.status());
  auto view = std::make_shared<memtable::View>();
  view->active = std::make_shared<memtable::HostMemtable>();
  view->set_runs(runs.take());
  view->table = publish_table_ = log_->table();
  view->below = below_->snapshot();
  last_run_end_ = view->runs.empty() ? log_->begin() : view->runs.front()->end;
  state_.publish(std::move(view), log_->end());

  recovery_ = {found.frames,
               found.entries,
               found.bytes,
               found.dropped_bytes,
               std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(),
               found.message};
  if (!found.message.empty()) spdlog::warn("{}", found.message);
  return Status::OK();
}

void Engine::start_maintenance() {
  MaintenanceOptions maintenance;
  maintenance.log_bytes_max = options_.memtable_bytes;
  maintenance.flush_parts = options_.flush_threads;
  maintenance_ = std::make_unique<Maintenance>(
      maintenance, &state_, backends_.get(), log_.get(), below_.get(), &fault_,
      Maintenance::Hooks{[this](std::uint64_t* sealed_below) {
                           const std::lock_guard lock(commits_->publish_lock());
                           const Status status = seal_active_locked();
                           *sealed_below = state_.visible();
                           return status;
                         },
                         [this](const auto& change) { change_view(change); },
                         [this] {
                           const std::lock_guard lock(commits_->publish_lock());
                           leave_device_locked().PermitUncheckedError();
                         }});
  maintenance_->note_runs(state_.view()->runs.size());
  maintenance_->start();
}

}  // namespace breccia::rocks
