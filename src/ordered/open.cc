#include <rocksdb/env.h>
#include <tbb/info.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "compaction/service.h"
#include "exec/choose.h"
#include "ordered/background/clean_runs.h"
#include "ordered/check.h"
#include "ordered/engine.h"
#include "ordered/recover.h"
#include "tree/ignored_fields.h"
#include "tree/read_defaults.h"
#include "wal/files_env.h"

/// Opening and closing the ordered engine.

namespace breccia::ordered {

namespace {

/// Options with every "0: chosen" replaced by what is chosen for a store at `path`.
Options with_defaults(Options options, const std::string& path) {
  constexpr std::uint64_t kMiB = 1 << 20;
  if (options.memtable_bytes == 0) {
    options.memtable_bytes = std::clamp(base::usable_memory_bytes() / 8, 512 * kMiB, 16'384 * kMiB);
  }
  options.memtable_bytes = std::min(options.memtable_bytes, limits::kMemtableBytesMax);
  if (!options.clean_bytes.has_value()) options.clean_bytes = options.memtable_bytes;
  if (!options.entry_cache_bytes.has_value()) options.entry_cache_bytes = tree::kEntryCacheBytes;
  if (!options.wait_us_max.has_value()) options.wait_us_max = 60'000'000;
  const bool is_on_disk = wal::files_of(options.rocksdb.env) == nullptr &&
                          !wal::lies_in_memory(tree::log_folder(options, path));
  if (options.log_segment_bytes == 0 && is_on_disk) {
    // Each costs two waits for the disk, which are long beside compactions.
    options.log_segment_bytes = std::min(options.memtable_bytes / 16, 256 * kMiB);
    if (options.log_preallocate_bytes > 0) {
      options.log_segment_bytes =
          std::min(options.log_segment_bytes, options.log_preallocate_bytes);
    }
  }
  options.log_segment_bytes = base::round_up(std::max<std::uint64_t>(options.log_segment_bytes, 1),
                                             limits::kLogWindowBytes);
  if (options.flush_threads <= 0) {
    options.flush_threads = std::clamp(tbb::info::default_concurrency(), 1, 8);
  }
  return options;
}

// A device lookup costs 20 us for the first key and next to nothing for more; a CPU lookup about
// 0.3 us a key. A written run costs a slot among the runs to search, so it should be larger.
constexpr std::uint64_t kReadsMin = 128;
constexpr std::uint64_t kHostWritesMin = 128;
constexpr std::uint64_t kDeviceWritesMin = 2048;

/// Threads that read files: half the cores, as others want some, and as many as a GPU's memory has
/// room for.
std::uint64_t file_readers(const exec::Device& device) {
  constexpr std::uint64_t kReadersMax = 8;
  const auto cores = static_cast<std::uint64_t>(tbb::info::default_concurrency());
  const std::uint64_t rooms =
      device.is_host() ? kReadersMax : device.memory_limit() / (8 * ResidentFiles::kLoadBytes);
  return std::clamp<std::uint64_t>(std::min(std::max<std::uint64_t>(cores / 2, 2), rooms), 1,
                                   kReadersMax);
}

Status check_comparator(const rocksdb::ColumnFamilyOptions& family) {
  if (family.comparator == rocksdb::BytewiseComparator()) return Status::OK();
  return Status::InvalidArgument(std::string("the comparator ") + family.comparator->Name(),
                                 "keys are ordered by their bytes; use the default comparator");
}

/// An entry cache of `bytes`, or of less where the process may not map so much.
/// Errors  MemoryLimit: not even 64 MiB.
Result<std::shared_ptr<cache::RowCache>> make_entry_cache(std::uint64_t bytes) {
  auto made = cache::RowCache::make(bytes);
  const std::uint64_t wanted = bytes;
  while (!made.ok() && bytes > tree::kEntryCacheBytes) {
    bytes = std::max(bytes / 2, tree::kEntryCacheBytes);
    made = cache::RowCache::make(bytes);
  }
  if (made.ok() && bytes < wanted) {
    log(LogLevel::kWarning, "the entry cache has " + std::to_string(bytes) + " bytes, not " +
                                std::to_string(wanted) + ": the process may map no more");
  }
  return made;
}

/// The part of `family`; none: all of it may have changed below `applied`.
tree::LogPart part_of(const std::vector<tree::LogPart>& parts, const FamilyView& family,
                      std::uint64_t applied) {
  for (const tree::LogPart& part : parts) {
    if (part.family == family.id && part.from < applied && family.tree_is_cached) return part;
  }
  return {family.id, applied, /*has_all=*/false};
}

/// Position from which on the log is kept, for clean runs of up to `clean_bytes`; 0: none is.
std::uint64_t clean_log_from(const std::vector<tree::LogPart>& parts, std::uint64_t applied,
                             std::uint64_t clean_bytes) {
  std::uint64_t from = applied;
  for (const tree::LogPart& part : parts) from = std::min(from, part.from);
  from = std::max(from, applied - std::min(applied, clean_bytes));
  return from < applied ? from : 0;
}

/// `parts`: what of the log clean runs may be made of.
Result<std::shared_ptr<View>> recovered_view(const std::vector<wal::RecoveredFrame>& frames,
                                             const wal::Log& log, tree::Tree* below,
                                             Backends* backends,
                                             const std::shared_ptr<cache::RowCache>& cache,
                                             const std::vector<tree::LogPart>& parts,
                                             TreeFilters* filters) {
  BRECCIA_TAKE(auto recovered, backends->run([&](runs::Backend& backend) {
    return recover_families(frames, below->applied(), backend);
  }));
  auto view = std::make_shared<View>();
  view->below = {below->db(), below->snapshot(), cache == nullptr ? 0 : cache->version(), cache};
  view->flushed = log.begin();
  // Entries of families that are not there any more are left out.
  for (const tree::TreeFamily& handle : below->families()) {
    auto family = new_family(handle, *below);
    filters->join(family.get());
    RecoveredFamily& own = recovered[family->id];
    family->runs_end = own.runs.empty() ? log.begin() : own.runs.front()->end;
    family->set_runs(std::move(own.runs));
    const tree::LogPart part = part_of(parts, *family, view->flushed);
    family->clean_from = view->flushed;
    family->log_from = part.from;
    family->log_has_all = part.has_all;
    family->tombstones = memtable::Tombstones::with(nullptr, std::move(own.tombstones));
    view->set_family(std::move(family));
  }
  return view;
}

}  // namespace

Status Engine::open(const Options& options, const std::string& path,
                    std::unique_ptr<Engine>* engine) {
  return base::or_memory_limit([&] {
    std::unique_ptr<Engine> opened(new Engine);
    BRECCIA_TRY(opened->start(options, path));
    *engine = std::move(opened);
    return Status::OK();
  });
}

Engine::~Engine() { Close().PermitUncheckedError(); }

Status Engine::Close() {
  const std::lock_guard lock(close_mutex_);
  if (closed_.is_set()) return base::copy_of(close_status_);
  if (async_ == nullptr) return Status::OK();  // it never opened
  async_->stop();
  BRECCIA_INVARIANT(holds(check()));
  // Nothing is to be flushed where the user of a Rocks has done so: iterators may have kept this.
  if (options_.flush_at_close && state_.visible() > log_->begin()) {
    // A flush that fails must not take what the log can keep. By the queue: the flusher may be
    // logging, too.
    close_status_ = commits_->keep(/*sync=*/true);
    if (close_status_.ok()) close_status_ = Flush();
  }
  listeners_->close();
  closed_.set();
  backends_->first().tenant().be_left_alone();
  room_->stop();
  merger_->stop();
  flusher_->stop();
  filter_builder_->stop();
  file_loader_->stop();
  history_->clear();  // holds may live longer
  // Writes without a log are lost with the process, not with an orderly end of it.
  Status logged = commits_->keep(/*sync=*/false);
  if (close_status_.ok()) close_status_ = std::move(logged);
  base::as_memory_allows([this] { log_statistics(); });
  return base::copy_of(close_status_);
}

/// For `breccia db stats`: what was counted ends with the process.
void Engine::log_statistics() const {
  const auto messages = below_->db()->GetDBOptions().info_log;
  if (messages == nullptr) return;
  rocksdb::Info(messages.get(), "%s\n%s", kStatisticsMark, figures().lines().c_str());
}

Status Engine::start(const Options& options, const std::string& path) {
  BRECCIA_TRY(check_comparator(options.rocksdb));
  for (const auto& [name, family] : options.families) BRECCIA_TRY(check_comparator(family));
  if (!options.wal_dir.empty() && tree::is_same_folder(options.wal_dir, path)) {
    return Status::InvalidArgument(
        "wal_dir is the store's own folder",
        "RocksDB would take the log's files for its; use a folder in it, or elsewhere");
  }
  for (const std::string& sentence : tree::ignored_fields(options, path)) {
    log(LogLevel::kWarning, sentence);
  }
  options_ = with_defaults(options, path);
  statistics_ = std::make_unique<Statistics>(options_.rocksdb.statistics);
  listeners_ = std::make_unique<Listeners>(options_.rocksdb.listeners);
  BRECCIA_TRY(choose_backend());
  if (*options_.entry_cache_bytes > 0) {
    BRECCIA_TAKE(cache_, make_entry_cache(*options_.entry_cache_bytes));
  }
  filters_ = std::make_unique<TreeFilters>(options_.tree_filter_bytes);
  BRECCIA_TRY(make_room_for_files());
  BRECCIA_TRY(open_tree(path));
  std::shared_ptr<View> recovered;
  BRECCIA_TRY(open_log(path, &recovered));
  make_rooms(std::move(recovered));
  backends_->first().tenant().answer(
      {.give = [this](std::uint64_t) { flusher_->give_device_memory(); },
       .lost = [this](const Status& why) { backends_->leave(why); }});
  return Status::OK();
}

Status Engine::open_tree(const std::string& path) {
  Options for_tree = options_;
  for_tree.rocksdb.listeners = listeners_->for_tree();
  add_compactions(&for_tree.rocksdb);
  BRECCIA_TAKE(below_, tree::Tree::open(for_tree, path, options_.flush_threads));
  listeners_->note_files(below_->db());
  fault_.tell([this](Fault::Place place, const Status& cause) {
    using Reason = rocksdb::BackgroundErrorReason;
    listeners_->background_error(
        place == Fault::Place::kFlush ? Reason::kFlush : Reason::kWriteCallback, cause);
  });
  return Status::OK();
}

/// Listeners of users would hear of no files and no parts of a compaction that RocksDB does not do.
void Engine::add_compactions(rocksdb::DBOptions* tree) {
  const bool is_heard = !options_.rocksdb.listeners.empty();
  if (!options_.compactions.has_value() || tree->compaction_service != nullptr || is_heard) return;
  CompactionServiceOptions how = *options_.compactions;
  how.has_only_committed = true;  // the tree hears of nothing else
  const exec::DevicePtr device = backends_->first().tenant().device_ptr();
  compactions_ = compaction::add_service(how, device, tree);
  tree->compaction_service = compactions_;
}

/// Keys of the tree's files lie on the device that runs lie on.
Status Engine::make_room_for_files() {
  // RocksDB would cut files off that it deletes slowly, and reading what is mapped there is fatal.
  const bool may_cut = options_.rocksdb.sst_file_manager != nullptr;
  if (options_.residency_bytes > 0 && may_cut) {
    log(LogLevel::kWarning,
        "residency_bytes: not with an sst_file_manager, which may cut files off");
  }
  if (options_.residency_bytes == 0 || may_cut) {
    files_ = std::make_unique<ResidentFiles>();
    return Status::OK();
  }
  const exec::DevicePtr& device = backends_->first().tenant().device_ptr();
  const std::uint64_t readers = file_readers(*device);
  const std::uint64_t load_bytes = readers * ResidentFiles::kLoadBytes;
  const std::uint64_t bytes_max =
      std::min(options_.residency_bytes, ~std::uint64_t{0} - load_bytes);
  BRECCIA_TAKE(auto backend, residency::make_backend(device, {.name = "residency",
                                                              .bytes_max = bytes_max + load_bytes,
                                                              .cost = exec::GiveCost::kCopy}));
  files_ = std::make_unique<ResidentFiles>(std::move(backend), bytes_max, readers);
  return Status::OK();
}

/// A call failed on the device, which was left for good or not.
void Engine::note_device(const Status& why, bool left) {
  statistics_->add(why.IsMemoryLimit() ? Ticker::kMemoryMisses : Ticker::kBackendErrors, 1);
  if (left && publisher_ != nullptr) publisher_->leave_device();
}

Status Engine::choose_backend() {
  std::string no_device;  // why there is none, if one was looked for
  BRECCIA_TAKE(const exec::DevicePtr device, exec::choose_device(options_, &no_device));
  BRECCIA_TAKE(auto backend, runs::make_backend(device, {.name = "ordered",
                                                         .bytes_max = options_.device_bytes_max,
                                                         .cost = exec::GiveCost::kFlush}));
  const std::uint64_t chosen = options_.device_requests_min;
  BackendMin device_min{kReadsMin, kDeviceWritesMin};
  if (chosen != 0) device_min = {chosen, chosen};
  backend_min_ = device_min;
  if (chosen == 0 && device->host_reads()) backend_min_.writes = kHostWritesMin;
  counter_ = std::make_unique<RequestCounter>(statistics_.get(), device_min, std::move(no_device));
  backends_ = std::make_unique<Backends>(std::move(backend), runs::make_host_backend());
  backends_->listen({[this](const Status& why, bool left) { note_device(why, left); }});
  return Status::OK();
}

Status Engine::open_log(const std::string& path, std::shared_ptr<View>* recovered) {
  const auto started = std::chrono::steady_clock::now();
  const exec::DevicePtr device = backends_->first().tenant().device_ptr();
  wal::LogOptions log_options;
  log_options.dir = tree::log_folder(options_, path);
  log_options.segment_bytes = options_.log_segment_bytes;
  log_options.preallocate_bytes = options_.log_preallocate_bytes;
  log_options.keep_bytes = options_.log_keep_bytes;
  log_options.files = wal::files_of(options_.rocksdb.env);
  if (log_options.files == nullptr) log_options.files = wal::real_files();
  log_options.store_id = below_->store_id();
  log_options.on_map = [device](std::byte* image, std::uint64_t bytes) {
    (void)device->adopt(image, bytes);  // if it cannot, its results go through staging
  };
  log_options.on_unmap = [device](std::byte* image) { device->disown(image); };
  std::vector<wal::RecoveredFrame> frames;
  wal::LogRecovery found;
  const std::uint64_t applied = below_->applied();
  std::vector<tree::LogPart> parts = below_->log_parts();
  log_options.hold_from = clean_log_from(parts, applied, *options_.clean_bytes);
  BRECCIA_TAKE(log_, wal::Log::open(
                         log_options, applied,
                         [&](const wal::RecoveredFrame& frame) {
                           frames.push_back(frame);
                           return Status::OK();
                         },
                         &found));
  // A new store's tree learns where its log begins: from now on a missing log is noticed.
  if (applied == 0)
    BRECCIA_TRY(below_->ingest(
        {}, log_->begin(), [] {}, [] {}));

  // What a power cut took out of the log lies in the tree, and would be missing in clean runs.
  if (!found.joins) parts.clear();
  if (log_options.hold_from == 0) parts.clear();
  BRECCIA_TAKE(*recovered, recovered_view(frames, *log_, below_.get(), backends_.get(), cache_,
                                          parts, filters_.get()));
  if (log_options.hold_from != 0 && !may_refill(**recovered)) {
    log_->remove_hold(wal::kOpeningHold);
  }
  recovery_ = {found.frames,
               found.entries,
               found.bytes,
               found.dropped_bytes,
               std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(),
               found.message};
  if (!found.message.empty()) log(LogLevel::kWarning, found.message);
  return Status::OK();
}

/// In the order in which they use each other.
void Engine::make_rooms(std::shared_ptr<View> recovered) {
  const StoreParts parts{&state_,           backends_.get(),  log_.get(),     below_.get(),
                         filters_.get(),    files_.get(),     &fault_,        &closed_,
                         statistics_.get(), listeners_.get(), counter_.get(), backend_min_};
  builder_ = std::make_unique<RunBuilder>(backends_.get(), statistics_.get(), backend_min_.writes);
  room_ = std::make_unique<Room>(parts, options_.memtable_bytes, *options_.wait_us_max);
  publisher_ = std::make_unique<Publisher>(parts, builder_.get(), room_.get());
  publisher_->begin(std::move(recovered), log_->end());
  commits_ =
      std::make_unique<wal::CommitQueue>(log_.get(), &fault_, publisher_->commit_environment());
  if (cache_ != nullptr) device_tags_ = std::make_unique<cache::DeviceTags>(cache_);
  search_ = std::make_unique<RunSearch>(backends_.get(), device_tags_.get(), statistics_.get());
  reader_ = std::make_unique<Reader>(backends_.get(), search_.get(), statistics_.get());
  updater_ = std::make_unique<Updater>(backends_.get(), search_.get());
  history_ = std::make_shared<History>(options_.memtable_bytes);
  validator_ = std::make_unique<Validator>(backends_.get(), search_.get(), history_.get());
  ranges_ = std::make_unique<RangeReader>(backends_.get(), statistics_.get());
  make_background(parts);
  lookups_ = std::make_unique<Lookups>(parts, builder_.get(), publisher_.get(), merger_.get(),
                                       reader_.get(), ranges_.get(), validator_.get());
  writer_ =
      std::make_unique<Writer>(parts, room_.get(), merger_.get(), commits_.get(), builder_.get(),
                               publisher_.get(), updater_.get(), lookups_.get());
  tree_changes_ = std::make_unique<TreeChanges>(parts, publisher_.get(), cache_.get());
  together_ = std::make_unique<batch::Together>(batch::Together::Engine{
      .check =
          [this](const batch::Requests& requests) {
            return check_families(requests, *state_.view());
          },
      .submit =
          [this](const WriteOptions& options, batch::Requests* requests) {
            return writer_->submit(options, ReadSet(), requests);
          },
      .memory = [this] { return batch_memory(*backends_); },
      .note =
          [this](std::uint64_t batches) {
            statistics_->add(Ticker::kBatches, batches - 1);  // the writer has counted one
          }});
  async_ = std::make_unique<batch::AsyncQueue>(
      batch::admission_options(options_),
      [this](std::span<batch::AsyncBatch> group) { together_->run(group); });
}

void Engine::make_background(const StoreParts& parts) {
  merger_ =
      std::make_unique<Merger>(parts, builder_.get(), publisher_.get(), &taken_runs_, room_.get());
  flusher_ = std::make_unique<Flusher>(
      parts, Flusher::Sizes{options_.flush_threads, *options_.clean_bytes}, publisher_.get(),
      commits_.get(), history_.get(), merger_.get(), &taken_runs_, room_.get());
  room_->note_view(state_.view()->runs_max(), state_.view()->tombstones());
  filter_builder_ = std::make_unique<FilterBuilder>(parts, publisher_.get());
  file_loader_ = std::make_unique<FileLoader>(parts, publisher_.get());
  merger_->start();
  merger_->wake();
  flusher_->start();
  if (options_.tree_filter_bytes > 0) filter_builder_->start();
  if (files_->backend() != nullptr) file_loader_->start();
}

}  // namespace breccia::ordered
