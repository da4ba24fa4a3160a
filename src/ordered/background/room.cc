#include "ordered/background/room.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/perf.h"
#include "base/sometimes.h"
#include "ordered/background/waits.h"

namespace breccia::ordered {

namespace {

/// Runs in the view above which writers help to merge, and at which they wait.
constexpr std::size_t kRunsBeforeHelp = 24;
constexpr std::size_t kRunsMax = limits::kRunsPerSearchMax / 2;

}  // namespace

void Room::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void Room::look_again() {
  { const std::lock_guard lock(mutex_); }  // who has just looked waits by now
  changed_.notify_all();
  flush_bell_.ring();
}

void Room::note_flush_begun(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  pace_.note_begun(bytes, Pace::Clock::now());
}

void Room::note_flush_ended(bool flushed) {
  const std::lock_guard lock(mutex_);
  pace_.note_ended(flushed, Pace::Clock::now());
}

// Of the time that a writer has, half is left to wait for room. Nobody tells of a fault of the log.
void Room::wait_for_turn(std::uint64_t bytes, Pace::Clock::time_point deadline) {
  flush_bell_.ring();  // whoever is slowed down waits for a flush in the end
  std::unique_lock lock(mutex_);
  const auto in_use = [this] { return parts_.log->bytes_in_use() + claimed_.load(); };
  auto now = Pace::Clock::now();
  const auto turn = std::min(pace_.turn(bytes, in_use(), now), now + (deadline - now) / 2);
  const auto is_over = [&] {
    return stopping_ || pace_.lets_on(in_use()) || !parts_.fault->get().ok();
  };
  for (; now < turn; now = Pace::Clock::now()) {
    if (changed_.wait_until(lock, std::min<Pace::Clock::time_point>(turn, now + kLookAgain),
                            is_over)) {
      return;
    }
  }
}

void Room::note_view(std::size_t runs, std::size_t tombstones) {
  runs_.store(runs, std::memory_order_relaxed);
  tombstones_.store(tombstones, std::memory_order_relaxed);
  if (tombstones >= limits::kTombstonesBeforeFlush) flush_bell_.ring();
}

bool Room::is_crowded() const { return runs_.load(std::memory_order_relaxed) > kRunsBeforeHelp; }

bool Room::is_short() const {
  return parts_.log->bytes_in_use() > log_bytes_max_ / 2 ||
         tombstones_.load(std::memory_order_relaxed) >= limits::kTombstonesBeforeFlush;
}

/// Claims `bytes` if `needed` bytes fit below `bytes_max` beside what is taken and claimed.
bool Room::claim_if(std::uint64_t bytes, std::uint64_t needed, std::uint64_t bytes_max) {
  if (runs_.load() >= kRunsMax || tombstones_.load() >= limits::kTombstonesMax) return false;
  const std::uint64_t before = claimed_.fetch_add(bytes, std::memory_order_relaxed);
  if (parts_.log->bytes_in_use() + before + needed <= bytes_max) return true;
  claimed_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

Result<RoomClaim> Room::claim(std::uint64_t bytes, std::uint64_t wait_us_max) {
  BRECCIA_TRY(parts_.fault->get());
  const bool has_room = !BRECCIA_SOMETIMES(5) && claim_if(bytes, bytes, log_bytes_max_ / 2);
  if (has_room) return RoomClaim(&claimed_, bytes);
  return wait(bytes, wait_us_max);
}

/// Tells listeners when the first writer begins to wait, and when none waits any more.
void Room::note_waiter(int more) {
  const std::lock_guard lock(waiters_mutex_);
  const bool stalled = waiters_ > 0;
  waiters_ += more;
  if ((waiters_ > 0) == stalled) return;
  base::as_memory_allows([&] { parts_.listeners->stall(*parts_.state->view(), waiters_ > 0); });
}

Result<RoomClaim> Room::wait(std::uint64_t bytes, std::uint64_t wait_us_max) {
  const base::PerfTimer timer(&rocksdb::PerfContext::write_delay_time);
  const base::Stopwatch watch;
  // A batch larger than half the limit may pass when the other half is free.
  const std::uint64_t needed = std::min(bytes, log_bytes_max_ / 2);
  bool claimed = false;
  const auto is_over = [&] {
    claimed = claim_if(bytes, needed, log_bytes_max_);
    if (claimed) return true;
    // Each time, not only at first: another writer may have taken the room that a flush made after
    // the flusher found nothing left to do.
    flush_bell_.ring();
    return stopping_ || !parts_.fault->get().ok();
  };
  const auto deadline = base::deadline_after(wait_us_max);
  if (wait_us_max > 0) wait_for_turn(bytes, deadline);
  {
    const std::lock_guard lock(mutex_);
    if (is_over() && claimed) return RoomClaim(&claimed_, bytes);
  }
  if (wait_us_max == 0) return refused(wait_us_max);
  note_waiter(1);
  bool in_time = true;
  {
    // Nobody tells of a fault of the log, or of a batch that became visible.
    std::unique_lock lock(mutex_);
    while (!changed_.wait_until(
        lock, std::min(std::chrono::steady_clock::now() + kLookAgain, deadline), is_over)) {
      in_time = std::chrono::steady_clock::now() < deadline;
      if (!in_time) break;
    }
  }
  note_waiter(-1);
  parts_.statistics->note_wait(watch.micros());
  if (!in_time) return refused(wait_us_max);
  if (claimed) return RoomClaim(&claimed_, bytes);
  BRECCIA_TRY(parts_.fault->get());
  return Status::ShutdownInProgress("the store is closing");
}

Status Room::refused(std::uint64_t wait_us_max) {
  BRECCIA_TRY(parts_.fault->get());
  parts_.statistics->add(Ticker::kRefused, 1);
  return Status::Incomplete(
      fmt::format("no room after {} ms: {} of {} log bytes and {} of {} range deletions wait for a "
                  "flush, {} of {} runs for a merge{}",
                  wait_us_max / 1000, parts_.log->bytes_in_use(), log_bytes_max_,
                  tombstones_.load(), limits::kTombstonesMax, runs_.load(), kRunsMax,
                  parts_.below->overloaded() ? ", and the tree below is compacting" : ""),
      "retry later, or raise Options::memtable_bytes");
}

}  // namespace breccia::ordered
