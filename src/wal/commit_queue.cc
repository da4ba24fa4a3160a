#include "wal/commit_queue.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/perf.h"
#include "base/waiting.h"

namespace breccia::wal {

namespace {

/// So long somebody commits for others whose own batch is done.
constexpr std::uint64_t kLeadMicros = 20;

/// What stops the store, where `status` is no success: MemoryLimit is for calls that may be tried
/// again.
Status stopping(const Status& status) {
  if (!status.IsMemoryLimit()) return base::copy_of(status);
  return base::io_error(
      "no memory to finish a batch that has its place in the log; open the store again");
}

}  // namespace

void TicketList::push_back(Ticket* ticket) {
  BRECCIA_ASSERT(first_ == nullptr || last_->frame.end() <= ticket->frame.position);
  ticket->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = ticket;
  last_ = ticket;
}

void TicketList::pop_front() {
  BRECCIA_ASSERT(first_ != nullptr);
  first_ = first_->next;
}

bool TicketList::holds(std::size_t count) const {
  std::uint64_t end = 0;
  for (const Ticket* ticket = first_; ticket != nullptr; ticket = ticket->next) {
    if (count-- == 0 || ticket->frame.position < end) return false;
    end = ticket->frame.end();
  }
  return count == 0;
}

CommitQueue::Turn::Turn(CommitQueue* queue) : lock_(queue->turn_mutex_) {
  std::unique_lock lock(queue->queue_mutex_);
  queue->empty_.wait(lock, [&] { return queue->under_way_ == 0; });
  BRECCIA_ASSERT(queue->queue_.empty());
}

Status CommitQueue::enter(Ticket* ticket, std::uint64_t record_bytes, std::uint32_t records,
                          std::uint32_t descriptors) {
  const auto turn = base::lock_awake(turn_mutex_);
  return enter_in_turn(ticket, record_bytes, records, descriptors);
}

Status CommitQueue::enter_in_turn(Ticket* ticket, std::uint64_t record_bytes, std::uint32_t records,
                                  std::uint32_t descriptors) {
  BRECCIA_ASSERT(ticket->state.load(std::memory_order_relaxed) == Ticket::State::kFilling);
  const auto lock = base::lock_awake(queue_mutex_);
  BRECCIA_TRY(fault_->get());
  auto frame = base::or_memory_limit(
      [&] { return log_->reserve(record_bytes, records, descriptors, ticket->aligned); });
  if (!frame.ok()) {
    // For want of memory nothing has changed, and the next batch may find some.
    if (!frame.status().IsMemoryLimit()) fault_->set(base::Fault::Place::kLog, frame.status());
    return frame.status();
  }
  ticket->frame = frame.take();
  BRECCIA_ASSERT(ticket->frame.position >= visible());
  queue_.push_back(ticket);
  ++under_way_;
  return Status::OK();
}

void CommitQueue::abandon(Ticket* ticket, const Status& why) {
  fault_->set(base::Fault::Place::kLog, stopping(why));
  (void)finish(ticket);
}

Status CommitQueue::finish(Ticket* ticket) {
  BRECCIA_ASSERT(ticket->state.load(std::memory_order_relaxed) == Ticket::State::kFilling);
  ticket->state.store(Ticket::State::kReady, std::memory_order_release);
  if (finished_.fetch_add(1, std::memory_order_acq_rel) == 0) lead(*ticket);
  // Not done: somebody else leads, or an earlier batch is still filling. Its owner finds this one
  // ready.
  while (true) {
    auto state = Ticket::State::kReady;
    if (ticket->durability == Durability::kSync) {
      ticket->state.wait(state, std::memory_order_acquire);  // a medium takes its time
      state = ticket->state.load(std::memory_order_acquire);
    } else {
      state = base::wait_awake(ticket->state, state);
    }
    if (state == Ticket::State::kDone) return ticket->status;
    BRECCIA_ASSERT(state == Ticket::State::kLeads);
    ticket->state.store(Ticket::State::kReady, std::memory_order_relaxed);
    lead(*ticket);
  }
}

void CommitQueue::lead(const Ticket& own) {
  const base::Stopwatch watch;
  std::uint64_t seen = finished_.load(std::memory_order_acquire);
  while (true) {
    BRECCIA_ASSERT(seen > 0);
    {
      const std::lock_guard lock(commit_mutex_);
      commit_ready();
    }
    // Whoever finishes from here on leads, or is seen.
    if (finished_.compare_exchange_strong(seen, 0, std::memory_order_acq_rel)) return;
    // Its owner waits no longer for other batches than it takes to wake theirs, and for no medium.
    const bool is_done = own.state.load(std::memory_order_acquire) == Ticket::State::kDone;
    if (is_done && pass_lead(/*to_any=*/watch.micros() >= kLeadMicros)) return;
  }
}

bool CommitQueue::pass_lead(bool to_any) {
  const auto lock = base::lock_awake(queue_mutex_);
  if (queue_.empty()) return false;
  Ticket* const first = queue_.front();
  const auto wants_sync = [first] {
    const Ticket* ticket = first;
    while (ticket != nullptr && ticket->durability != Durability::kSync &&
           ticket->state.load(std::memory_order_acquire) == Ticket::State::kReady) {
      ticket = ticket->next;
    }
    return ticket != nullptr && ticket->durability == Durability::kSync;
  };
  if (!to_any && !wants_sync()) return false;
  auto ready = Ticket::State::kReady;
  if (!first->state.compare_exchange_strong(ready, Ticket::State::kLeads,
                                            std::memory_order_acq_rel)) {
    return false;
  }
  first->state.notify_one();
  return true;
}

void CommitQueue::commit_ready() {
  TicketList group;
  std::size_t count = 0;
  {
    const std::lock_guard lock(queue_mutex_);
    while (!queue_.empty() &&
           queue_.front()->state.load(std::memory_order_acquire) == Ticket::State::kReady) {
      Ticket* const ready = queue_.front();
      queue_.pop_front();
      group.push_back(ready);
      ++count;
    }
    // Whoever entered is in the queue, or in the one group that is being committed.
    BRECCIA_INVARIANT(queue_.holds(under_way_ - count) && group.holds(count));
  }
  if (group.empty()) return;
  Status status = fault_->get();
  if (status.ok()) status = stopping(make_durable(group));
  if (!status.ok()) fault_->set(base::Fault::Place::kLog, status);
  while (!group.empty()) {
    Ticket* const ticket = group.front();
    group.pop_front();  // first: with complete() the ticket may be gone
    if (status.ok()) {
      const base::PerfTimer timer(&rocksdb::PerfContext::write_memtable_time);
      BRECCIA_ASSERT(visible() <= ticket->frame.position);
      // It is in the log: whoever reads must see it, or nobody may write any more.
      status = stopping(base::or_memory_limit([&] { return environment_.publish(*ticket); }));
      if (!status.ok()) fault_->set(base::Fault::Place::kLog, status);
    }
    complete(ticket, status);
  }
  wake_waiters();
  const std::lock_guard lock(queue_mutex_);
  BRECCIA_ASSERT(count <= under_way_);
  under_way_ -= count;
  if (under_way_ == 0) empty_.notify_all();
}

Status CommitQueue::make_durable(const TicketList& group) {
  BRECCIA_ASSERT(!group.empty());
  std::uint64_t end = 0;
  bool sync = false;
  std::uint64_t bytes = 0;
  std::uint64_t frames = 0;
  for (const Ticket* ticket = group.front(); ticket != nullptr; ticket = ticket->next) {
    ++frames;
    bytes += ticket->frame.end() - ticket->frame.position;
    if (ticket->durability == Durability::kNone) continue;
    BRECCIA_ASSERT(end <= ticket->frame.position);
    end = ticket->frame.end();
    sync = sync || ticket->durability == Durability::kSync;
  }
  environment_.note({.frames = frames, .bytes = bytes});
  return end == 0 ? Status::OK() : commit_log(end, sync);
}

Status CommitQueue::commit_log(std::uint64_t end, bool sync) {
  const base::PerfTimer timer(&rocksdb::PerfContext::write_wal_time);
  const base::Stopwatch watch;
  const Status status = base::with_patience([&] { return log_->commit(end, sync); });
  CommitNote note{.commits = 1};
  if (sync && status.ok()) note.sync_micros = watch.micros();
  environment_.note(note);
  return status;
}

void CommitQueue::complete(Ticket* ticket, const Status& status) {
  BRECCIA_ASSERT(ticket->state.load(std::memory_order_relaxed) == Ticket::State::kReady);
  ticket->status = base::copy_of(status);
  // The ticket may be gone as soon as its owner sees kDone: notify touches only its address.
  ticket->state.store(Ticket::State::kDone, std::memory_order_release);
  ticket->state.notify_one();
}

Status CommitQueue::keep(bool sync) {
  const std::lock_guard lock(commit_mutex_);
  BRECCIA_TRY(fault_->get());
  BRECCIA_INVARIANT(visible() <= log_->end());
  const Status status = stopping(commit_log(environment_.visible(), sync));
  if (!status.ok()) fault_->set(base::Fault::Place::kLog, status);
  wake_waiters();
  return status;
}

bool CommitQueue::wait_until(std::chrono::steady_clock::time_point deadline,
                             const std::function<bool()>& over) {
  // Counted before over() looks; wake_waiters() looks after what it tells of was stored. Both are
  // sequentially consistent, so one of the two sees the other.
  waiting_.fetch_add(1);
  std::unique_lock lock(wait_mutex_);
  const bool is_over = committed_.wait_until(lock, deadline, over);
  const int waiting = waiting_.fetch_sub(1);
  BRECCIA_ASSERT(waiting > 0);
  return is_over;
}

void CommitQueue::wake_waiters() {
  if (waiting_.fetch_add(0) == 0) return;
  // Whoever has asked over() and found nothing is waiting by now.
  const std::lock_guard lock(wait_mutex_);
  committed_.notify_all();
}

}  // namespace breccia::wal
