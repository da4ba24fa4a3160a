#include "rocks/maintenance.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "base/limits.h"
#include "base/parallel.h"
#include "wal/format.h"

namespace breccia::rocks {

namespace {

/// Runs in the view above which writers help to merge, and at which they wait.
constexpr std::size_t kRunsBeforeHelp = 24;
constexpr std::size_t kRunsMax = limits::kRunsPerSearchMax / 2;
/// How often a waiter looks at what nobody tells it.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

}  // namespace

Maintenance::Maintenance(const MaintenanceOptions& options, ViewState* state, BackendSlot* backends,
                         wal::Log* log, Below* below, Fault* fault, Hooks hooks)
    : options_(options),
      state_(state),
      backends_(backends),
      log_(log),
      below_(below),
      fault_(fault),
      hooks_(std::move(hooks)) {}

Maintenance::~Maintenance() { stop(); }

void Maintenance::start() {
  merger_ = std::thread([this] { run_merger(); });
  flusher_ = std::thread([this] { run_flusher(); });
}

void Maintenance::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  merger_wakes_.notify_all();
  flusher_wakes_.notify_all();
  room_.notify_all();
  if (merger_.joinable()) merger_.join();
  if (flusher_.joinable()) flusher_.join();
}

std::uint64_t Maintenance::log_bytes() const {
  const std::uint64_t begin = log_->begin();  // first: it never passes an end read later
  return log_->end() - begin;
}

// What a flush could release: frames that are still being filled do not count.
std::uint64_t Maintenance::visible_bytes() const {
  const std::uint64_t begin = log_->begin();
  const std::uint64_t visible = state_->visible();
  return visible > begin ? visible - begin : 0;
}

bool Maintenance::device_is_full() const {
  const auto backend = backends_->current();
  // A merge of all runs needs about two and a half times their memory besides.
  return backend->memory_used() > backend->memory_limit() / 4;
}

/// Claims `bytes` if `needed` bytes fit below `bytes_max` beside what is taken and claimed.
bool Maintenance::claim_if(std::uint64_t bytes, std::uint64_t needed, std::uint64_t bytes_max) {
  if (runs_.load() >= kRunsMax) return false;
  const std::uint64_t before = claimed_.fetch_add(bytes, std::memory_order_relaxed);
  if (log_bytes() + before + needed <= bytes_max) return true;
  claimed_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

Result<RoomClaim> Maintenance::claim_room(std::uint64_t bytes, std::uint64_t wait_us_max) {
  // While the merger is busy with large runs, small ones pile up: who makes them merges them.
  while (runs_.load(std::memory_order_relaxed) > kRunsBeforeHelp && merge_once()) {
  }
  // A batch larger than half the limit may pass when the other half is free.
  const std::uint64_t needed = std::min(bytes, options_.log_bytes_max / 2);
  BRECCIA_TRY(fault_->get());
  if (claim_if(bytes, bytes, options_.log_bytes_max / 2)) return RoomClaim(&claimed_, bytes);
  bool claimed = false;
  const auto has_room = [&] {
    claimed = claim_if(bytes, needed, options_.log_bytes_max);
    if (claimed) return true;
    // Each time, not only at first: another writer may have taken the room that a flush made after
    // the flusher found nothing left to do.
    flusher_wakes_.notify_one();
    return stopping_ || !fault_->get().ok();
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(wait_us_max);
  std::unique_lock lock(mutex_);
  // In slices: a fault of the log, or a batch that became visible, wakes nobody here.
  while (!room_.wait_for(lock, kLookAgain, has_room)) {
    if (std::chrono::steady_clock::now() < deadline) continue;
    return Status::Busy(
        fmt::format("no room after {} ms: {} of {} log bytes wait for a flush, {} of {} runs for a "
                    "merge{}",
                    wait_us_max / 1000, log_bytes(), options_.log_bytes_max, runs_.load(), kRunsMax,
                    below_->overloaded() ? ", and the tree below is compacting" : ""),
        "retry later, or raise Options::memtable_bytes");
  }
  if (claimed) return RoomClaim(&claimed_, bytes);
  BRECCIA_TRY(fault_->get());
  return Status::ShutdownInProgress("the store is closing");
}

void Maintenance::wake_merger() {
  {
    const std::lock_guard lock(mutex_);
    merge_hint_ = true;
  }
  merger_wakes_.notify_one();
}

void Maintenance::note_runs(std::size_t runs) {
  runs_.store(runs, std::memory_order_relaxed);
  wake_merger();
}

void Maintenance::note_probes(std::uint64_t probes) {
  constexpr std::uint64_t kWorthLooking = 1 << 16;
  const std::uint64_t before = probes_.fetch_add(probes, std::memory_order_relaxed);
  if (before / kWorthLooking != (before + probes) / kWorthLooking) wake_merger();
}

Status Maintenance::flush() {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = ++flushes_wanted_;
  flusher_wakes_.notify_one();
  const auto over = [&] { return flushes_done_ >= wanted || stopping_ || !fault_->get().ok(); };
  // Looks again at times: a fault of the log wakes nobody here, and the flusher stops at it.
  while (!room_.wait_for(lock, kLookAgain, over)) {
  }
  return flushes_done_ >= wanted ? Status::OK() : fault_->get();
}

// ---- merging -----------------------------------------------------------------------------------

void Maintenance::run_merger() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      merger_wakes_.wait(lock, [&] { return stopping_ || merge_hint_; });
      if (stopping_) return;
      merge_hint_ = false;
    }
    while (fault_->get().ok() && merge_once()) {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
  }
}

std::vector<memtable::MemRunPtr> Maintenance::take_for_merge() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || flush_waits_) return {};
  const auto view = state_->view();
  const memtable::RunRange due =
      memtable::merge_due(view->runs, taken_, probes_.load(std::memory_order_relaxed));
  if (due.count < 2) return {};
  const auto first = view->runs.begin() + static_cast<std::ptrdiff_t>(due.first);
  std::vector<memtable::MemRunPtr> runs(first, first + static_cast<std::ptrdiff_t>(due.count));
  taken_.push_back({runs.back()->begin, runs.front()->end});
  // The merge uses up the probes that pay for it.
  std::uint64_t cost = 0;
  for (const auto& run : runs) cost += run->run->count();
  probes_.fetch_sub(std::min(cost, probes_.load(std::memory_order_relaxed)),
                    std::memory_order_relaxed);
  return runs;
}

void Maintenance::give_back(const memtable::TakenRange& range) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(taken_, [&](const auto& own) { return own.begin == range.begin; });
  }
  flusher_wakes_.notify_all();
  room_.notify_all();
}

bool Maintenance::merge_once() {
  const std::vector<memtable::MemRunPtr> runs = take_for_merge();
  if (runs.empty()) return false;
  auto one = merged(runs);
  if (one.ok()) {
    hooks_.change_view([&](memtable::View* next) {
      auto list = next->runs;
      const auto first = std::find(list.begin(), list.end(), runs.front());
      // A device lost meanwhile has replaced the runs; the merged one is of no use then.
      if (first == list.end()) return;
      *first = one.value();
      list.erase(first + 1, first + static_cast<std::ptrdiff_t>(runs.size()));
      runs_.store(list.size(), std::memory_order_relaxed);
      next->set_runs(std::move(list));
    });
    ++merges_;
  } else {
    spdlog::warn("a merge of {} runs failed, searches go on with all of them: {}", runs.size(),
                 one.status().ToString());
  }
  give_back({runs.back()->begin, runs.front()->end});
  return one.ok();
}

Result<memtable::MemRunPtr> Maintenance::merged(const std::vector<memtable::MemRunPtr>& runs) {
  const auto backend = backends_->current();
  const bool all_here = std::all_of(runs.begin(), runs.end(), [&](const auto& run) {
    return backends_->holds(*backend, *run->run);
  });
  if (all_here) {
    auto one = merged_on(*backend, runs);
    if (one.ok() || backends_->is_host(*backend)) return one;
    if (backends_->retire(*backend, one.status())) hooks_.leave_device();
  }
  // The host cannot read the runs of a device: it builds them again from the log.
  memtable::View view;
  view.table = state_->view()->table;
  view.set_runs(runs);
  BRECCIA_TAKE(const auto on_host, view_on_host(view, backends_->host()));
  return merged_on(backends_->host(), on_host->runs);
}

Result<memtable::MemRunPtr> Maintenance::merged_on(exec::Backend& backend,
                                                   const std::vector<memtable::MemRunPtr>& runs) {
  std::vector<exec::RunPtr> inputs;
  for (const auto& run : runs) inputs.push_back(run->run);
  auto one = std::make_shared<memtable::MemRun>();
  one->begin = runs.back()->begin;
  one->end = runs.front()->end;
  BRECCIA_TAKE(one->run, backend.merge_runs(inputs, /*newest_only=*/true));
  if (one->run->host_view() == nullptr) {
    std::vector<std::uint64_t> payloads(one->run->count());
    BRECCIA_TRY(backend.read_payloads(*one->run, payloads.data()));
    one->payloads = std::make_shared<const std::vector<std::uint64_t>>(std::move(payloads));
  }
  return memtable::MemRunPtr(std::move(one));
}

// ---- flushing ----------------------------------------------------------------------------------

void Maintenance::run_flusher() {
  while (true) {
    std::uint64_t wanted = 0;
    {
      std::unique_lock lock(mutex_);
      const auto due = [&] {
        return flushes_done_ < flushes_wanted_ ||
               (visible_bytes() > 0 &&
                (log_bytes() > options_.log_bytes_max / 2 || device_is_full()));
      };
      flusher_wakes_.wait(lock, [&] { return stopping_ || (due() && fault_->get().ok()); });
      if (stopping_) return;
      wanted = flushes_wanted_;
    }
    while (below_->overloaded()) {
      std::unique_lock lock(mutex_);
      if (flusher_wakes_.wait_for(lock, std::chrono::milliseconds(10), [&] { return stopping_; })) {
        return;
      }
    }
    const Status status = flush_once();
    if (status.IsMemoryLimit()) {
      spdlog::warn("a flush found no memory and will be tried again: {}", status.ToString());
      std::unique_lock lock(mutex_);
      if (flusher_wakes_.wait_for(lock, std::chrono::seconds(1), [&] { return stopping_; })) return;
      continue;
    }
    if (!status.ok()) {
      spdlog::error("flush failed, the store is read-only: {}", status.ToString());
      fault_->set(status);
    }
    const std::lock_guard lock(mutex_);
    if (status.ok()) flushes_done_ = std::max(flushes_done_, wanted);
    room_.notify_all();
  }
}

/// All runs of the current view are the flush's from here on, until it gives them back.
memtable::ViewPtr Maintenance::take_for_flush() {
  std::unique_lock lock(mutex_);
  flush_waits_ = true;
  flusher_wakes_.wait(lock, [&] { return taken_.empty(); });
  flush_waits_ = false;
  memtable::ViewPtr view = state_->view();
  if (!view->runs.empty()) taken_.push_back({view->runs.back()->begin, view->runs.front()->end});
  return view;
}

Status Maintenance::flush_once() {
  std::uint64_t applied = 0;
  BRECCIA_TRY(hooks_.seal_active(&applied));
  const memtable::ViewPtr view = take_for_flush();
  if (!view->runs.empty()) applied = std::max(applied, view->runs.front()->end);
  // Without runs there may still be positions to release: opening leaves a gap in them.
  if (view->runs.empty() && applied == log_->begin()) return Status::OK();
  Status status = write_tree(*view, applied);
  if (status.ok()) {
    const BelowSnapshot below = below_->snapshot();
    hooks_.change_view([&](memtable::View* next) {
      auto list = next->runs;
      std::erase_if(list, [&](const auto& run) { return run->end <= applied; });
      runs_.store(list.size(), std::memory_order_relaxed);
      next->set_runs(std::move(list));
      next->below = below;
    });
    // Not before: whoever publishes takes the log's table, which must reach down to the oldest run.
    status = log_->release_below(applied);
    hooks_.change_view([](memtable::View*) {});  // lets go of the segments
    ++flushes_;
  }
  if (!view->runs.empty()) give_back({view->runs.back()->begin, view->runs.front()->end});
  return status;
}

Status Maintenance::write_tree(const memtable::View& view, std::uint64_t applied) {
  if (view.runs.empty()) return below_->ingest({}, applied);
  BRECCIA_TAKE(const auto one, merged(view.runs));
  const std::vector<std::uint64_t> payloads = payloads_of(*one, *view.table);
  const std::uint64_t n = payloads.size();
  constexpr std::uint64_t kEntriesPerPartMin = 64 << 10;
  const auto parts = std::clamp<std::uint64_t>(n / kEntriesPerPartMin, 1,
                                               static_cast<std::uint64_t>(options_.flush_parts));
  std::vector<std::string> files(parts);
  std::vector<Status> statuses(parts);
  base::parallel_for(std::uint64_t{0}, parts, [&](std::uint64_t part) {
    std::uint64_t i = n * part / parts;
    const std::uint64_t end = n * (part + 1) / parts;
    constexpr std::uint64_t kAhead = 8;
    const auto next = [&](Below::Entry* entry) {
      if (i == end) return false;
      if (i + kAhead < end) {
        __builtin_prefetch(view.table->at(wal::position_of(payloads[i + kAhead])));
      }
      const std::byte* const record = view.table->at(wal::position_of(payloads[i++]));
      const wal::RecordHeader header = wal::record_header(record);
      entry->key = Slice(wal::record_key(record), header.key_bytes());
      entry->value = Slice(wal::record_key(record) + header.key_bytes(), header.value_bytes);
      entry->is_delete = header.op() == wal::Op::kDelete;
      return true;
    };
    statuses[part] = below_->write_file(static_cast<int>(part), next, &files[part]);
  });
  for (const Status& status : statuses) BRECCIA_TRY(status);
  std::erase(files, std::string());
  return below_->ingest(files, applied);
}

}  // namespace breccia::rocks
