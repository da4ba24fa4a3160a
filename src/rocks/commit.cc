#include "rocks/commit.h"

namespace breccia::rocks {

Status CommitQueue::enter(Ticket* ticket, std::uint64_t record_bytes, std::uint32_t records,
                          std::uint32_t descriptors) {
  const std::lock_guard lock(queue_mutex_);
  BRECCIA_TRY(fault_->get());
  auto frame = log_->reserve(record_bytes, records, descriptors);
  if (!frame.ok()) {
    fault_->set(frame.status());
    return frame.status();
  }
  ticket->frame = frame.take();
  queue_.push_back(ticket);
  return Status::OK();
}

void CommitQueue::abandon(Ticket* ticket, const Status& why) {
  fault_->set(why);
  (void)finish(ticket);
}

Status CommitQueue::finish(Ticket* ticket) {
  ticket->state.store(Ticket::State::kReady, std::memory_order_release);
  {
    const std::lock_guard lock(commit_mutex_);
    if (ticket->state.load(std::memory_order_acquire) != Ticket::State::kDone) commit_ready();
  }
  // Not done: an earlier batch is still filling. Its owner finds this one ready and commits it.
  ticket->state.wait(Ticket::State::kReady, std::memory_order_acquire);
  return ticket->status;
}

void CommitQueue::commit_ready() {
  std::deque<Ticket*> group;
  {
    const std::lock_guard lock(queue_mutex_);
    while (!queue_.empty() &&
           queue_.front()->state.load(std::memory_order_acquire) == Ticket::State::kReady) {
      group.push_back(queue_.front());
      queue_.pop_front();
    }
  }
  if (group.empty()) return;
  Status status = fault_->get();
  if (status.ok()) status = make_durable(group);
  if (!status.ok()) fault_->set(status);
  for (Ticket* ticket : group) {
    if (status.ok()) {
      status = publish_(*ticket);
      if (!status.ok()) fault_->set(status);
    }
    complete(ticket, status);
  }
}

Status CommitQueue::make_durable(const std::deque<Ticket*>& group) {
  std::uint64_t end = 0;
  bool sync = false;
  for (const Ticket* ticket : group) {
    if (ticket->durability == Durability::kNone) continue;
    end = ticket->frame.end();
    sync = sync || ticket->durability == Durability::kSync;
  }
  return end == 0 ? Status::OK() : log_->commit(end, sync);
}

void CommitQueue::complete(Ticket* ticket, const Status& status) {
  ticket->status = status;
  // The ticket may be gone as soon as its owner sees kDone: notify touches only its address.
  ticket->state.store(Ticket::State::kDone, std::memory_order_release);
  ticket->state.notify_one();
}

Status CommitQueue::sync(std::uint64_t visible) {
  const std::lock_guard lock(commit_mutex_);
  BRECCIA_TRY(fault_->get());
  const Status status = log_->commit(visible, /*sync=*/true);
  if (!status.ok()) fault_->set(status);
  return status;
}

}  // namespace breccia::rocks
