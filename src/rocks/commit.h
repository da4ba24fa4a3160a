#pragma once

#include <breccia/options.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "base/result.h"
#include "memtable/view.h"
#include "rocks/state.h"
#include "wal/log.h"

namespace breccia::rocks {

/// One batch's writes on their way from reserve to commit.
struct Ticket {
  wal::Frame frame;
  Durability durability = Durability::kDefault;
  /// The batch as a run; null if its records go into the host memtable one by one.
  exec::RunPtr run;
  /// The view right after this batch was published, for its own reads; filled if `wants_view`.
  bool wants_view = false;
  memtable::ViewPtr view;

  enum class State : std::uint32_t { kFilling, kReady, kDone };
  std::atomic<State> state{State::kFilling};
  Status status;
};

/// Orders commits: batches reserve log space in arrival order, fill their frames at the same time,
/// and are made durable and visible in that order, as many with one write as are ready.
///
/// Threads any number in enter() and finish().
class CommitQueue {
 public:
  /// `publish` makes one committed ticket's entries visible; called in order, under the lock of
  /// publish_lock().
  CommitQueue(wal::Log* log, Fault* fault, std::function<Status(Ticket&)> publish)
      : log_(log), fault_(fault), publish_(std::move(publish)) {}

  /// Takes the batch's place in the log. Whoever has one must give the ticket to finish() or
  /// abandon(): those behind it wait.
  /// Errors  the store's fault, or the log's: nothing was taken.
  Status enter(Ticket* ticket, std::uint64_t record_bytes, std::uint32_t records,
               std::uint32_t descriptors);

  /// Gives up a ticket that cannot be completed. The log has a hole then, so the store stops.
  void abandon(Ticket* ticket, const Status& why);

  /// Commits the sealed ticket; returns when it is durable as it asked and visible.
  Status finish(Ticket* ticket);

  /// Held while anything is published; whoever holds it may publish views.
  [[nodiscard]] std::mutex& publish_lock() { return commit_mutex_; }

  /// Makes all that is visible durable against power loss.
  Status sync(std::uint64_t visible);

 private:
  void commit_ready();
  Status make_durable(const std::deque<Ticket*>& group);
  static void complete(Ticket* ticket, const Status& status);

  wal::Log* log_;
  Fault* fault_;
  std::function<Status(Ticket&)> publish_;
  std::mutex queue_mutex_;  // guards queue_ and reserve; never held during I/O on data
  std::deque<Ticket*> queue_;
  std::mutex commit_mutex_;
};

}  // namespace breccia::rocks
