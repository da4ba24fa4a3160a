#include "ordered/background/maintenance.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/perf.h"
#include "ordered/background/flush.h"

namespace breccia::ordered {

namespace {

/// Runs in the view above which writers help to merge, and at which they wait.
constexpr std::size_t kRunsBeforeHelp = 24;
constexpr std::size_t kRunsMax = limits::kRunsPerSearchMax / 2;
/// Orders that a merged run has at most before a merge reads its own: what one key's search on the
/// host costs until then, in searches of one order.
constexpr std::size_t kOrdersMax = 32;
/// How long who found no memory waits at most before the next try.
constexpr auto kMemoryPauseMax = std::chrono::milliseconds(200);
/// How often a waiter looks at what nobody tells it.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

}  // namespace

Maintenance::Maintenance(const MaintenanceOptions& options, ViewState* state, Backends* backends,
                         const RunBuilder* builder, Publisher* publisher, wal::CommitQueue* commits,
                         wal::Log* log, tree::Tree* below, History* history, Fault* fault,
                         Statistics* statistics, Listeners* listeners)
    : options_(options),
      state_(state),
      backends_(backends),
      builder_(builder),
      publisher_(publisher),
      commits_(commits),
      log_(log),
      below_(below),
      history_(history),
      fault_(fault),
      statistics_(statistics),
      listeners_(listeners) {}

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

// What a flush could release: frames that are still being filled do not count.
std::uint64_t Maintenance::visible_bytes() const {
  const std::uint64_t begin = log_->begin();
  const std::uint64_t visible = state_->visible();
  return visible > begin ? visible - begin : 0;
}

bool Maintenance::device_is_full() const {
  exec::Tenant& tenant = backends_->current()->tenant();
  // A merge of all runs needs about two and a half times their memory besides.
  return tenant.used() > tenant.bytes_max() / 4;
}

/// Claims `bytes` if `needed` bytes fit below `bytes_max` beside what is taken and claimed.
bool Maintenance::claim_if(std::uint64_t bytes, std::uint64_t needed, std::uint64_t bytes_max) {
  if (runs_.load() >= kRunsMax || tombstones_.load() >= limits::kTombstonesMax) return false;
  const std::uint64_t before = claimed_.fetch_add(bytes, std::memory_order_relaxed);
  if (log_->bytes_in_use() + before + needed <= bytes_max) return true;
  claimed_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

Result<RoomClaim> Maintenance::claim_room(std::uint64_t bytes, std::uint64_t wait_us_max) {
  BRECCIA_TRY(fault_->get());
  // While the merger is busy with large runs, small ones pile up: who makes them merges them, and
  // has the time.
  bool merged = wait_us_max > 0;
  while (merged && fault_->get().ok() && runs_.load(std::memory_order_relaxed) > kRunsBeforeHelp) {
    merge_once(&merged).PermitUncheckedError();  // the merger says why
  }
  if (claim_if(bytes, bytes, options_.log_bytes_max / 2)) return RoomClaim(&claimed_, bytes);
  return wait_for_room(bytes, wait_us_max);
}

/// Tells listeners when the first writer begins to wait, and when none waits any more.
void Maintenance::note_waiter(int more) {
  const std::lock_guard lock(waiters_mutex_);
  const bool stalled = waiters_ > 0;
  waiters_ += more;
  if ((waiters_ > 0) == stalled) return;
  base::as_memory_allows([&] { listeners_->stall(*state_->view(), waiters_ > 0); });
}

/// Waits for `over` on room_, and looks again at times: a fault of the log, or a batch that became
/// visible, wakes nobody here. False: the deadline came first.
template <class Over>
bool Maintenance::wait_until(std::chrono::steady_clock::time_point deadline, const Over& over) {
  std::unique_lock lock(mutex_);
  while (!room_.wait_until(lock, std::min(std::chrono::steady_clock::now() + kLookAgain, deadline),
                           over)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
  return true;
}

Result<RoomClaim> Maintenance::wait_for_room(std::uint64_t bytes, std::uint64_t wait_us_max) {
  const base::PerfTimer timer(&rocksdb::PerfContext::write_delay_time);
  const base::Stopwatch watch;
  // A batch larger than half the limit may pass when the other half is free.
  const std::uint64_t needed = std::min(bytes, options_.log_bytes_max / 2);
  bool claimed = false;
  const auto has_room = [&] {
    claimed = claim_if(bytes, needed, options_.log_bytes_max);
    if (claimed) return true;
    // Each time, not only at first: another writer may have taken the room that a flush made after
    // the flusher found nothing left to do.
    flusher_wakes_.notify_one();
    return stopping_ || !fault_->get().ok();
  };
  const auto deadline = base::deadline_after(wait_us_max);
  {
    const std::lock_guard lock(mutex_);
    if (has_room() && claimed) return RoomClaim(&claimed_, bytes);
  }
  if (wait_us_max == 0) return refused(wait_us_max);
  note_waiter(1);
  const bool in_time = wait_until(deadline, has_room);
  note_waiter(-1);
  statistics_->note_wait(watch.micros());
  if (!in_time) return refused(wait_us_max);
  if (claimed) return RoomClaim(&claimed_, bytes);
  BRECCIA_TRY(fault_->get());
  return Status::ShutdownInProgress("the store is closing");
}

Status Maintenance::refused(std::uint64_t wait_us_max) {
  BRECCIA_TRY(fault_->get());
  statistics_->add(Ticker::kRefused, 1);
  return Status::Incomplete(
      fmt::format("no room after {} ms: {} of {} log bytes and {} of {} range deletions wait for a "
                  "flush, {} of {} runs for a merge{}",
                  wait_us_max / 1000, log_->bytes_in_use(), options_.log_bytes_max,
                  tombstones_.load(), limits::kTombstonesMax, runs_.load(), kRunsMax,
                  below_->overloaded() ? ", and the tree below is compacting" : ""),
      "retry later, or raise Options::memtable_bytes");
}

void Maintenance::wake_merger() {
  {
    const std::lock_guard lock(mutex_);
    merge_hint_ = true;
  }
  merger_wakes_.notify_one();
}

void Maintenance::note_view(std::size_t runs, std::size_t tombstones) {
  runs_.store(runs, std::memory_order_relaxed);
  tombstones_.store(tombstones, std::memory_order_relaxed);
  if (tombstones >= limits::kTombstonesBeforeFlush) flusher_wakes_.notify_one();
  wake_merger();
}

void Maintenance::note_probes(std::uint64_t probes) {
  constexpr std::uint64_t kWorthLooking = 1 << 16;
  const std::uint64_t before = probes_.fetch_add(probes, std::memory_order_relaxed);
  if (before / kWorthLooking != (before + probes) / kWorthLooking) wake_merger();
}

void Maintenance::want_orders() {
  if (!orders_wanted_.exchange(true)) wake_merger();
}

void Maintenance::give_device_memory() {
  {
    const std::lock_guard lock(mutex_);
    device_memory_wanted_ = true;
  }
  flusher_wakes_.notify_one();
}

Status Maintenance::flush(bool waits_for_tree) {
  std::uint64_t wanted = 0;
  {
    const std::lock_guard lock(mutex_);
    wanted = ++flushes_wanted_;
    if (!waits_for_tree) flushes_at_once_ = wanted;
  }
  flusher_wakes_.notify_one();
  bool done = false;
  std::uint64_t told = 0;
  (void)wait_until(std::chrono::steady_clock::time_point::max(), [&] {
    done = flushes_done_ >= wanted;
    told = flush_told_;
    return done || stopping_ || !fault_->get().ok();  // the flusher stops at a fault
  });
  if (!done) return fault_->get();
  listeners_->wait(told);
  return Status::OK();
}

// ---- merging -----------------------------------------------------------------------------------

void Maintenance::run_merger() {
  Status status;
  base::MemoryPause pause(kMemoryPauseMax);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto is_due = [&] { return stopping_ || merge_hint_; };
      if (status.IsMemoryLimit()) {
        // Every new run is a hint: this is no time for one merge after the other that fails.
        merger_wakes_.wait_for(lock, pause.next(), [&] { return stopping_; });
      } else {
        pause.start_over();
        merger_wakes_.wait(lock, is_due);
      }
      if (stopping_) return;
      merge_hint_ = false;
    }
    status = Status::OK();
    bool merged = true;
    while (merged && fault_->get().ok()) {
      bool read = false;
      Status of_order;
      if (orders_wanted_.load()) of_order = read_order_once(&read);
      status = merge_once(&merged);
      if (status.ok()) status = std::move(of_order);
      merged = status.ok() && (merged || read);
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
  }
}

Maintenance::Taken Maintenance::take(const FamilyView& family, RunRange range) {
  const auto first = family.runs.begin() + static_cast<std::ptrdiff_t>(range.first);
  Taken taken{family.id, {first, first + static_cast<std::ptrdiff_t>(range.count)}};
  taken_.push_back({family.id, taken.runs.back()->begin, taken.runs.front()->end});
  return taken;
}

std::optional<Maintenance::Taken> Maintenance::take_for_merge() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || flush_waits_) return {};
  const auto view = state_->view();
  for (const FamilyViewPtr& family : view->families) {
    const RunRange due = merge_due(*family, taken_, probes_.load(std::memory_order_relaxed));
    if (due.count < 2) continue;
    Taken taken = take(*family, due);
    // The merge uses up the probes that pay for it.
    std::uint64_t cost = 0;
    for (const auto& run : taken.runs) cost += run->run->count();
    probes_.fetch_sub(std::min(cost, probes_.load(std::memory_order_relaxed)),
                      std::memory_order_relaxed);
    return taken;
  }
  return {};
}

void Maintenance::give_back(const std::function<bool(const TakenRange&)>& is_mine) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(taken_, is_mine);
  }
  flusher_wakes_.notify_all();
  room_.notify_all();
}

void Maintenance::give_back(const Taken& taken) {
  give_back([&](const auto& range) {
    return range.family == taken.family && range.begin == taken.runs.back()->begin;
  });
}

Status Maintenance::merge_once(bool* merged) {
  *merged = false;
  std::optional<Taken> taken;
  BRECCIA_TRY(base::or_memory_limit([&] {
    taken = take_for_merge();
    return Status::OK();
  }));
  if (!taken.has_value()) return Status::OK();
  Status status = base::or_memory_limit([&] { return merge_taken(*taken); });
  *merged = status.ok();
  give_back(*taken);
  if (!status.ok()) {
    base::as_memory_allows([&] {
      log(LogLevel::kWarning,
          fmt::format("a merge of {} runs failed, searches go on with all of them: {}",
                      taken->runs.size(), status.ToString()));
    });
  }
  return status;
}

Status Maintenance::merge_taken(const Taken& taken) {
  const base::Stopwatch watch;
  std::size_t orders = 0;
  for (const auto& run : taken.runs) orders += run->orders.size();
  BRECCIA_TAKE(const MemRunPtr one, merged(taken.runs, /*reads_order=*/orders > kOrdersMax));
  install(taken, one);
  statistics_->add(Ticker::kRunMerges, 1);
  for (const auto& run : taken.runs) {
    statistics_->add(Ticker::kRunMergeEntries, run->run->count());
  }
  statistics_->record(Timing::kRunMergeMicros, watch.micros());
  return Status::OK();
}

bool Maintenance::install(const Taken& taken, const MemRunPtr& one) {
  bool installed = false;
  publisher_->change([&](View* next) {
    const FamilyView* const family = next->family(taken.family);
    // After a fault the newest runs may be of a batch that was never shown; the publisher knows
    // first.
    if (family == nullptr || publisher_->gave_up() || !fault_->get().ok()) return;
    // The device that has the merged run may be lost, and with it a front run of the host's stays.
    if (one->run->host_view() == nullptr && !backends_->current()->holds(*one->run)) return;
    auto list = family->runs;
    const auto first = std::find(list.begin(), list.end(), taken.runs.front());
    // A device lost meanwhile has replaced the runs; the merged one is of no use then.
    if (first == list.end()) return;
    *first = one;
    list.erase(first + 1, first + static_cast<std::ptrdiff_t>(taken.runs.size()));
    auto changed = std::make_shared<FamilyView>(*family);
    changed->set_runs(std::move(list));
    next->set_family(std::move(changed));
    runs_.store(next->runs_max(), std::memory_order_relaxed);
    installed = true;
  });
  return installed;
}

std::optional<Maintenance::Taken> Maintenance::take_for_order() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || flush_waits_) return {};
  const ViewPtr view = state_->view();
  for (const FamilyViewPtr& family : view->families) {
    for (std::size_t i = 0; i < family->runs.size(); ++i) {
      const MemRun& run = *family->runs[i];
      if (run.orders.size() > 1 && is_free(family->id, run, taken_)) return take(*family, {i, 1});
    }
  }
  orders_wanted_ = false;  // a later search asks again for what others work on
  return {};
}

Status Maintenance::read_order_once(bool* read) {
  std::optional<Taken> taken;
  BRECCIA_TRY(base::or_memory_limit([&] {
    taken = take_for_order();
    return Status::OK();
  }));
  if (!taken.has_value()) return Status::OK();
  const Status status = base::or_memory_limit([&] {
    const auto one = std::make_shared<MemRun>(*taken->runs.front());
    const auto backend = backends_->current();
    // The device may be lost, and then the view has other runs by now.
    if (!backend->holds(*one->run)) return Status::OK();
    BRECCIA_TAKE(Order order, backends_->attempt(*backend, [&](runs::Backend& on) {
      return read_order(on, one->run);
    }));
    one->set_order(std::move(order));
    *read = install(*taken, one);
    if (*read) statistics_->add(Ticker::kOrdersRead, 1);
    return Status::OK();
  });
  give_back(*taken);
  return base::copy_of(status);
}

Result<MemRunPtr> Maintenance::merged(const std::vector<MemRunPtr>& runs, bool reads_order) {
  const auto backend = backends_->current();
  if (builder_->merges_on(*backend, runs)) {
    auto one = backends_->attempt(
        *backend, [&](runs::Backend& on) { return merged_on(on, runs, reads_order); });
    if (one.ok() || backends_->is_host(*backend)) return one;
  }
  // The host cannot read the runs of a device: it builds them again from the log.
  BRECCIA_TAKE(const auto on_host, runs_on_host(runs, *state_->view()->table, backends_->host()));
  return merged_on(backends_->host(), on_host, /*reads_order=*/true);
}

// What the host has built goes to the device for the merge: else it would draw all that it is
// merged with to the host.
Result<MemRunPtr> Maintenance::merged_on(runs::Backend& backend, const std::vector<MemRunPtr>& runs,
                                         bool reads_order) {
  std::vector<runs::RunPtr> inputs;
  auto one = std::make_shared<MemRun>();
  for (const auto& run : runs) {
    inputs.push_back(run->run);
    if (!backend.holds(*run->run)) {
      BRECCIA_TAKE(inputs.back(), backend.build_run(entries_of(*run->run->host_view()),
                                                    /*descriptors=*/nullptr));
    }
    one->has_merges = one->has_merges || run->has_merges;
  }
  one->begin = runs.back()->begin;
  one->end = runs.front()->end;
  const runs::Keep keep = one->has_merges ? runs::Keep::kStacks : runs::Keep::kNewest;
  BRECCIA_TAKE(one->run, backend.merge_runs(inputs, keep));
  if (reads_order || one->run->host_view() != nullptr) {
    BRECCIA_TAKE(Order order, read_order(backend, one->run));
    one->set_order(std::move(order));
  } else {
    for (const auto& run : runs) {
      one->orders.insert(one->orders.end(), run->orders.begin(), run->orders.end());
    }
  }
  return MemRunPtr(std::move(one));
}

// ---- flushing ----------------------------------------------------------------------------------

void Maintenance::run_flusher() {
  base::MemoryPause pause(kMemoryPauseMax);
  while (true) {
    std::uint64_t wanted = 0;
    bool manual = false;
    {
      std::unique_lock lock(mutex_);
      const auto due = [&] {
        return flushes_done_ < flushes_wanted_ ||
               (visible_bytes() > 0 &&
                (log_->bytes_in_use() > options_.log_bytes_max / 2 || device_is_full() ||
                 device_memory_wanted_ || tombstones_.load() >= limits::kTombstonesBeforeFlush));
      };
      flusher_wakes_.wait(lock, [&] { return stopping_ || (due() && fault_->get().ok()); });
      if (stopping_) return;
      wanted = flushes_wanted_;
      manual = flushes_done_ < wanted;
      device_memory_wanted_ = false;
    }
    std::uint64_t told = 0;
    bool is_closing = false;
    const Status status = base::or_memory_limit([&] {
      is_closing = !wait_for_tree();
      return is_closing ? Status::OK() : flush_once(manual, &told);
    });
    if (is_closing) return;
    if (status.IsMemoryLimit()) {
      base::as_memory_allows([&] {
        log(LogLevel::kWarning,
            "a flush found no memory and will be tried again: " + status.ToString());
      });
      std::unique_lock lock(mutex_);
      if (flusher_wakes_.wait_for(lock, pause.next(), [&] { return stopping_; })) return;
      continue;
    }
    pause.start_over();
    if (!status.ok()) {
      base::as_memory_allows([&] {
        log(LogLevel::kError, "flush failed, the store is read-only: " + status.ToString());
      });
      fault_->set(Fault::Place::kFlush, status);
    }
    const std::lock_guard lock(mutex_);
    if (status.ok()) flushes_done_ = std::max(flushes_done_, wanted);
    flush_told_ = told;
    room_.notify_all();
  }
}

/// Waits while the tree has too many files, unless somebody wants a flush at once: a compaction's
/// callback may, and then the tree gets rid of none before that. False: the store closes.
bool Maintenance::wait_for_tree() {
  while (below_->overloaded()) {
    std::unique_lock lock(mutex_);
    const auto at_once = [&] { return stopping_ || flushes_done_ < flushes_at_once_; };
    if (flusher_wakes_.wait_for(lock, std::chrono::milliseconds(10), at_once)) return !stopping_;
  }
  return true;
}

/// Seals all memtables; the runs of *view are the flush's from here on, until it gives them back.
Status Maintenance::take_for_flush(ViewPtr* view, std::uint64_t* applied) {
  {
    std::unique_lock lock(mutex_);
    flush_waits_ = true;
    flusher_wakes_.wait(lock, [&] { return taken_.empty(); });
  }
  // Nobody merges now, so the runs in *view stay those of the store.
  const Status status = base::or_memory_limit([&] {
    BRECCIA_TRY(publisher_->seal_all([&] {
      *applied = state_->visible();
      *view = state_->view();
    }));
    taken_.reserve((*view)->families.size());  // it is empty, and stays so
    return Status::OK();
  });
  const std::lock_guard lock(mutex_);
  flush_waits_ = false;
  if (!status.ok()) return base::copy_of(status);
  for (const FamilyViewPtr& family : (*view)->families) {
    if (family->runs.empty()) continue;
    taken_.push_back({family->id, family->runs.back()->begin, family->runs.front()->end});
  }
  return Status::OK();
}

Status Maintenance::flush_once(bool manual, std::uint64_t* told) {
  ViewPtr view;
  std::uint64_t applied = 0;
  BRECCIA_TRY(take_for_flush(&view, &applied));
  Status status;
  // Without runs there may still be positions to release: opening leaves a gap in them.
  if (applied != log_->begin()) {
    status = base::or_memory_limit([&] { return flush_taken(view, applied, manual, told); });
  }
  give_back([&](const auto& range) { return range.end <= applied; });
  return status;
}

Status Maintenance::flush_taken(const ViewPtr& view, std::uint64_t applied, bool manual,
                                std::uint64_t* told) {
  const base::Stopwatch watch;
  const std::uint64_t begin = log_->begin();
  listeners_->flush_begins(*view, applied, manual);
  cache::RowCache::Change change(view->below.cache.get());
  Status shown;
  auto flushed = flush_view(
      *view, applied, options_.flush_parts, below_,
      [this](const auto& runs) { return merged(runs, /*reads_order=*/true); }, &change,
      [&] { shown = show_when_flushed(view, applied, &change); });
  Status status = flushed.ok() ? std::move(shown) : base::copy_of(flushed.status());
  if (status.ok()) status = base::or_memory_limit([&] { return release_log(applied); });
  if (!status.ok()) {
    listeners_->flush_failed();
    return status;
  }
  statistics_->note_flush(watch.micros(), flushed.value().files, flushed.value().bytes,
                          applied - begin);
  base::as_memory_allows([&] { *told = listeners_->flush_completed(); });
  return status;
}

/// show_flushed(), until it is done: the tree has what memory holds, and a second flush of that
/// would add operands to themselves.
Status Maintenance::show_when_flushed(const ViewPtr& view, std::uint64_t applied,
                                      cache::RowCache::Change* change) {
  const Status status = base::with_patience([&] {
    show_flushed(view, applied, change);
    return Status::OK();
  });
  if (status.ok()) return Status::OK();
  return base::io_error("no memory to show what was flushed; open the store again");
}

/// Lets readers find in the tree what they found in memory. What a family held when it was dropped
/// is in neither: it goes with the last view that holds it.
void Maintenance::show_flushed(const ViewPtr& flushed, std::uint64_t applied,
                               cache::RowCache::Change* change) {
  const tree::TreeSnapshot below = below_->snapshot();
  publisher_->change([&](View* next) {
    for (const FamilyViewPtr& before : flushed->families) {
      const FamilyView* const family = next->family(before->id);
      if (family == nullptr) continue;
      if (family->dropped) {
        next->erase_family(family->id);
        continue;
      }
      auto changed = std::make_shared<FamilyView>(*family);
      auto list = family->runs;
      std::erase_if(list, [&](const auto& run) { return run->end <= applied; });
      changed->set_runs(std::move(list));
      changed->tombstones = memtable::Tombstones::from(family->tombstones, applied);
      changed->tree_has_data = family->tree_has_data || !before->runs.empty();
      next->set_family(std::move(changed));
    }
    next->below.snapshot = below;
    next->flushed = applied;
    history_->add(flushed, applied);
    next->below.version = change->publish();  // from here on nothing wants memory
    runs_.store(next->runs_max(), std::memory_order_relaxed);
    tombstones_.store(next->tombstones(), std::memory_order_relaxed);
  });
}

Status Maintenance::release_log(std::uint64_t applied) {
  // What is kept for change streams is read from its files later.
  if (log_->keeps()) BRECCIA_TRY(commits_->sync());
  // Not before: whoever publishes takes the log's table, which must reach down to the oldest run.
  const Status status = log_->release_below(applied);
  if (device_is_full()) history_->clear();
  publisher_->change([](View*) {});  // lets go of the segments
  return status;
}

}  // namespace breccia::ordered
