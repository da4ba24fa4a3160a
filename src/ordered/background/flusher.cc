#include "ordered/background/flusher.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "ordered/background/flush.h"
#include "ordered/background/waits.h"

namespace breccia::ordered {

namespace {

/// How often the tree below is asked whether it has caught up.
constexpr auto kAskTree = std::chrono::milliseconds(10);

}  // namespace

Flusher::Flusher(const StoreParts& parts, const Sizes& sizes, Publisher* publisher,
                 wal::CommitQueue* commits, History* history, Merger* merger, TakenRuns* taken,
                 Room* room)
    : parts_(parts),
      sizes_(sizes),
      publisher_(publisher),
      commits_(commits),
      history_(history),
      merger_(merger),
      taken_(taken),
      room_(room),
      refill_(parts, publisher, merger) {}

Flusher::~Flusher() { stop(); }

void Flusher::start() {
  thread_ = std::thread([this] { run(); });
}

void Flusher::stop() {
  stopping_ = true;
  room_->flush_bell().ring();
  if (thread_.joinable()) thread_.join();
  ended_.notify_all();
}

Status Flusher::flush(bool waits_for_tree) {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = ++wanted_;
  if (!waits_for_tree) at_once_ = wanted;
  room_->flush_bell().ring();
  // Nobody tells of a fault, after which the flusher stops.
  while (done_ < wanted && !stopping_ && parts_.fault->get().ok()) {
    ended_.wait_for(lock, kLookAgain);
  }
  if (done_ < wanted) return parts_.fault->get();
  const std::uint64_t told = told_;
  lock.unlock();
  parts_.listeners->wait(told);
  return Status::OK();
}

void Flusher::give_device_memory() {
  {
    const std::lock_guard lock(mutex_);
    device_memory_wanted_ = true;
  }
  room_->flush_bell().ring();
}

// What a flush could release: frames that are still being filled do not count.
std::uint64_t Flusher::visible_bytes() const {
  const std::uint64_t begin = parts_.log->begin();
  const std::uint64_t visible = parts_.state->visible();
  return visible > begin ? visible - begin : 0;
}

// A merge of all runs needs about two and a half times their memory besides.
bool Flusher::device_is_full() const {
  exec::Tenant& tenant = parts_.backends->current()->tenant();
  return tenant.used() > tenant.bytes_max() / 4;
}

/// True if the device is full and a flush would give much back: what somebody pins it would not.
bool Flusher::device_wants_flush() const {
  constexpr std::uint64_t kWorthShare = 32;
  if (!device_is_full()) return false;
  std::uint64_t bytes = 0;
  const ViewPtr view = parts_.state->view();
  for (const FamilyViewPtr& family : view->families) bytes += device_bytes(family->runs);
  return bytes > parts_.backends->current()->tenant().bytes_max() / kWorthShare;
}

std::uint64_t Flusher::clean_on_device() const {
  std::uint64_t bytes = 0;
  const ViewPtr view = parts_.state->view();
  for (const FamilyViewPtr& family : view->families) bytes += device_bytes(family->clean);
  return bytes;
}

bool Flusher::is_due() {
  if (!parts_.fault->get().ok()) return false;
  const std::lock_guard lock(mutex_);
  if (done_ < wanted_ || (device_memory_wanted_ && clean_on_device() > 0)) return true;
  return visible_bytes() > 0 &&
         (room_->is_short() || device_wants_flush() || device_memory_wanted_);
}

void Flusher::run() {
  base::MemoryPause pause(kMemoryPauseMax);
  note_log();  // the tree that was opened is another one than that of the note
  while (true) {
    while (!stopping_ && !is_due()) {
      if (!refill_.is_pending()) {
        room_->flush_bell().wait();
        continue;
      }
      refill_.step(clean_budget(*parts_.state->view(), {}));
      base::or_memory_limit([&] { return merge_clean(); }).PermitUncheckedError();
      if (refill_.is_pending()) continue;
      // What the log held for it, and it did not take.
      base::or_memory_limit([&] {
        return release_log(parts_.log->begin());
      }).PermitUncheckedError();
    }
    if (stopping_) return;
    if (give_clean_memory()) continue;
    std::uint64_t wanted = 0;
    bool manual = false;
    {
      const std::lock_guard lock(mutex_);
      wanted = wanted_;
      manual = done_ < wanted_;
      keeps_clean_ = !std::exchange(device_memory_wanted_, false);
    }
    std::uint64_t told = 0;
    bool is_closing = false;
    room_->note_flush_begun(visible_bytes());
    const Status status = base::or_memory_limit([&] {
      is_closing = !wait_for_tree();
      return is_closing ? Status::OK() : flush_once(manual, &told);
    });
    room_->note_flush_ended(status.ok());
    if (is_closing) return;
    if (status.IsMemoryLimit()) {
      base::as_memory_allows([&] {
        log(LogLevel::kWarning,
            "a flush found no memory and will be tried again: " + status.ToString());
      });
      std::this_thread::sleep_for(pause.next());
      continue;
    }
    pause.start_over();
    const bool flushed = status.ok();
    note_end(status, wanted, told);
    if (flushed) base::or_memory_limit([&] { return merge_clean(); }).PermitUncheckedError();
  }
}

void Flusher::note_end(const Status& status, std::uint64_t wanted, std::uint64_t told) {
  if (!status.ok()) {
    base::as_memory_allows([&] {
      log(LogLevel::kError, "flush failed, the store is read-only: " + status.ToString());
    });
    parts_.fault->set(Fault::Place::kFlush, status);
  }
  {
    const std::lock_guard lock(mutex_);
    if (status.ok()) done_ = std::max(done_, wanted);
    told_ = told;
  }
  ended_.notify_all();
  room_->look_again();
}

bool Flusher::is_wanted_at_once() {
  const std::lock_guard lock(mutex_);
  return done_ < at_once_;
}

/// Waits while the tree has too many files, unless somebody wants a flush at once: a compaction's
/// callback may, and then the tree gets rid of none before that. False: the store closes.
bool Flusher::wait_for_tree() {
  while (parts_.below->overloaded()) {
    if (stopping_) return false;
    if (is_wanted_at_once()) return true;
    room_->flush_bell().wait_for(kAskTree);
  }
  return true;
}

/// Seals all memtables; the runs of *view are the flush's from here on, until it gives them back.
Status Flusher::take_all(ViewPtr* view, std::uint64_t* applied) {
  taken_->begin_flush();
  // Nobody merges now, so the runs in *view stay those of the store.
  Status status = base::or_memory_limit([&] {
    BRECCIA_TRY(publisher_->seal_all([&] {
      *applied = parts_.state->visible();
      *view = parts_.state->view();
    }));
    taken_->take_all(**view);
    return Status::OK();
  });
  if (!status.ok()) taken_->give_up_flush();
  return status;
}

Status Flusher::flush_once(bool manual, std::uint64_t* told) {
  ViewPtr view;
  std::uint64_t applied = 0;
  BRECCIA_TRY(take_all(&view, &applied));
  Status status;
  // Without runs there may still be positions to release: opening leaves a gap in them.
  status = base::or_memory_limit([&] {
    return applied != parts_.log->begin() ? flush_taken(view, applied, manual, told)
                                          : release_log(applied);
  });
  taken_->give_back_below(applied);
  view.reset();
  if (device_is_full()) history_->clear();
  merger_->wake();
  return status;
}

Status Flusher::flush_taken(const ViewPtr& view, std::uint64_t applied, bool manual,
                            std::uint64_t* told) {
  const base::Stopwatch watch;
  const std::uint64_t begin = parts_.log->begin();
  parts_.listeners->flush_begins(*view, applied, manual);
  cache::RowCache::Change change(view->below.cache.get());
  Status shown;
  FlushedRuns merged;
  const auto merge = [&](const std::vector<MemRunPtr>& runs) {
    auto one = merger_->merged(runs, /*reads_order=*/true);
    if (one.ok()) merged.emplace_back(runs.front(), one.value());
    return one;
  };
  auto flushed =
      flush_view(*view, applied, {parts_.below, sizes_.files, parts_.filters}, merge, &change,
                 [&] { shown = show_when_flushed(view, applied, merged, &change); });
  Status status = flushed.ok() ? std::move(shown) : base::copy_of(flushed.status());
  if (status.ok()) {
    note_log();
    status = base::or_memory_limit([&] { return release_log(applied); });
  }
  if (!status.ok()) {
    parts_.listeners->flush_failed();
    return status;
  }
  parts_.statistics->note_flush(watch.micros(), flushed.value().files, flushed.value().bytes,
                                applied - begin);
  base::as_memory_allows([&] { *told = parts_.listeners->flush_completed(); });
  return status;
}

/// show_flushed(), until it is done: the tree has what memory holds, and a second flush of that
/// would add operands to themselves.
Status Flusher::show_when_flushed(const ViewPtr& view, std::uint64_t applied,
                                  const FlushedRuns& merged, cache::RowCache::Change* change) {
  const Status status = base::with_patience([&] {
    show_flushed(view, applied, merged, change);
    return Status::OK();
  });
  if (status.ok()) return Status::OK();
  return base::io_error("no memory to show what was flushed; open the store again");
}

/// Lets readers find in the tree what they found in memory, and in clean runs what those may keep
/// of it. What a family held when it was dropped is in neither: it goes with the last view that
/// holds it.
void Flusher::show_flushed(const ViewPtr& flushed, std::uint64_t applied, const FlushedRuns& merged,
                           cache::RowCache::Change* change) {
  const tree::TreeSnapshot below = parts_.below->snapshot();
  publisher_->change([&](View* next) {
    const CleanBudget budget = clean_budget(*next, merged);
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
      const auto one = std::find_if(merged.begin(), merged.end(), [&](const auto& flushed_as) {
        return !before->runs.empty() && flushed_as.first == before->runs.front();
      });
      keep_flushed(changed.get(), *before, one == merged.end() ? nullptr : one->second,
                   flushed->flushed, applied,
                   next->keeps_clean && budget.log_bytes > 0 &&
                       (one == merged.end() || is_in_use(*one->second)));
      changed->tombstones = memtable::Tombstones::from(family->tombstones, applied);
      changed->tree_has_data = family->tree_has_data || !before->runs.empty();
      if (!before->runs.empty() || before->tombstones != nullptr) {
        // Somebody who changes the tree past the engine may have begun to.
        if (parts_.filters->is_shut()) {
          changed->note_tree_change();
        } else {
          changed->note_flush(flushed->flushed);
        }
      }
      next->set_family(std::move(changed));
    }
    next->below.snapshot = below;
    next->flushed = applied;
    shrink_clean(next, budget);
    history_->add(flushed, applied);
    next->below.version = change->publish();  // from here on nothing wants memory
    room_->note_view(next->runs_max(), next->tombstones());
  });
  parts_.files->bell().ring();
}

// ---- clean runs --------------------------------------------------------------------------------

/// True if searches can use a run: the device that has it may be lost meanwhile.
bool Flusher::is_in_use(const MemRun& run) const {
  return run.run->host_view() != nullptr || parts_.backends->current()->holds(*run.run);
}

/// Of a device half of what makes it full, less what neither the view nor `merged` holds there:
/// snapshots, iterators, work under way.
CleanBudget Flusher::clean_budget(const View& view, const FlushedRuns& merged) const {
  constexpr std::uint64_t kDeviceShare = 8;
  if (!keeps_clean_) return {};
  exec::Tenant& tenant = parts_.backends->current()->tenant();
  if (tenant.device().host_reads()) return {sizes_.clean_bytes, sizes_.clean_bytes};
  std::uint64_t own = 0;
  for (const FamilyViewPtr& family : view.families) {
    own += device_bytes(family->runs) + device_bytes(family->clean);
  }
  for (const auto& [newest, one] : merged) own += device_bytes({one});
  const std::uint64_t used = tenant.used();
  const std::uint64_t share = tenant.bytes_max() / kDeviceShare;
  return {sizes_.clean_bytes, share - std::min(share, used - std::min(used, own))};
}

/// Lets go of all clean runs if somebody else wants the device's memory; false if nobody does, or
/// none lie there: then it takes a flush.
bool Flusher::give_clean_memory() {
  {
    const std::lock_guard lock(mutex_);
    if (!device_memory_wanted_ || clean_on_device() == 0) return false;
    device_memory_wanted_ = false;  // who asks from now on is heard again
  }
  refill_.end();
  const Status given = base::or_memory_limit([&] {
    publisher_->change([](View* next) { shrink_clean(next, {}); });
    return release_log(parts_.log->begin());
  });
  if (given.ok()) return true;
  const std::lock_guard lock(mutex_);
  device_memory_wanted_ = true;
  return false;
}

/// For the next opening. Without memory there is no note, or one of an earlier flush, which that
/// does not believe.
void Flusher::note_log() {
  if (sizes_.clean_bytes == 0 || !parts_.fault->get().ok()) return;  // views may say too much
  base::as_memory_allows(
      [this] { parts_.below->note_log([this] { return log_parts(*parts_.state->view()); }); });
}

/// Keeps clean runs few: one merge for each flush at least, which is enough of them. What fails is
/// tried again after the next flush.
Status Flusher::merge_clean() {
  constexpr std::uint64_t kPartsMin = 2;  // a merged run leaves as a whole
  bool merged = false;
  do {
    merged = false;
    const ViewPtr view = parts_.state->view();
    for (const FamilyViewPtr& family : view->families) {
      RunRange due = clean_merge_due(*family, sizes_.clean_bytes / kPartsMin);
      // The run of which older files know nothing keeps others from forgetting deletions; behind
      // the next flush they know it.
      if (due.count > 0 && due.first == 0 && family->clean_unknown() == 1) {
        ++due.first;
        --due.count;
      }
      if (due.count < 2) continue;
      BRECCIA_TRY(merge_clean_once(*family, due));
      merged = true;
    }
  } while (merged && !stopping_ && !is_due());
  return Status::OK();
}

Status Flusher::merge_clean_once(const FamilyView& family, RunRange due) {
  const auto first = family.clean.begin() + static_cast<std::ptrdiff_t>(due.first);
  const std::vector<MemRunPtr> runs(first, first + static_cast<std::ptrdiff_t>(due.count));
  // Below the oldest lies the tree alone, unless a refill has yet to bring more, or files serve
  // that do not know of its deletions.
  const bool is_oldest = due.first + due.count == family.clean.size() && !refill_.is_pending() &&
                         due.first >= family.clean_unknown();
  BRECCIA_TAKE(const MemRunPtr one, merger_->merged_clean(runs, is_oldest));
  publisher_->change([&](View* next) {
    const FamilyView* const now = next->family(family.id);
    if (now == nullptr || !is_in_use(*one)) return;
    auto clean = now->clean;
    const auto at = std::find(clean.begin(), clean.end(), runs.front());
    // Somebody let go of them meanwhile.
    if (std::distance(at, clean.end()) < static_cast<std::ptrdiff_t>(runs.size())) return;
    *at = one;
    clean.erase(at + 1, at + static_cast<std::ptrdiff_t>(runs.size()));
    std::erase_if(clean, [](const MemRunPtr& run) { return run->run->count() == 0; });
    auto changed = std::make_shared<FamilyView>(*now);
    const bool has_all = now->clean_has_all && !clean.empty();
    changed->set_clean(std::move(clean), has_all);
    next->set_family(std::move(changed));
  });
  return Status::OK();
}

Status Flusher::release_log(std::uint64_t applied) {
  // What is kept for change streams is read from its files later.
  if (parts_.log->keeps()) BRECCIA_TRY(commits_->keep(/*sync=*/true));
  // Not before: whoever publishes takes the log's table, which must reach down to the oldest run.
  const Status status = parts_.log->release_below(applied, clean_begin(*parts_.state->view()));
  publisher_->change([](View*) {});  // lets go of the segments
  return status;
}

}  // namespace breccia::ordered
