#pragma once

#include <breccia/options.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ordered/state.h"
#include "ordered/view.h"
#include "wal/log.h"

namespace breccia::ordered {

/// One batch's writes on their way from reserve to commit.
struct Ticket {
  wal::Frame frame;
  Durability durability = Durability::kDefault;
  /// The batch's point operations as runs, one per family; none if its records go into the host
  /// memtables one by one.
  struct FamilyRun {
    FamilyId family;
    runs::RunPtr run;
    const std::uint32_t* descriptors;  // of this family in the frame, null if it has none
    bool has_merges;
    /// The run's order where there are no descriptors and the host cannot read the run.
    std::shared_ptr<const std::vector<std::uint64_t>> payloads;
  };
  std::vector<FamilyRun> runs;
  /// The offsets of its range deletions among the frame's records, by family, if it has runs.
  std::vector<std::pair<FamilyId, std::uint64_t>> range_deletes;
  /// The view right after this batch was published, for its own reads; filled if `wants_view`.
  bool wants_view = false;
  ViewPtr view;

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
  /// `publish` makes one committed ticket's entries visible; called in order, by one at a time.
  CommitQueue(wal::Log* log, Fault* fault, Statistics* statistics,
              std::function<Status(Ticket&)> publish)
      : log_(log), fault_(fault), statistics_(statistics), publish_(std::move(publish)) {}

  /// Takes the batch's place in the log. Whoever has one must give the ticket to finish() or
  /// abandon(): those behind it wait.
  /// Errors  the store's fault, or the log's: nothing was taken.
  Status enter(Ticket* ticket, std::uint64_t record_bytes, std::uint32_t records,
               std::uint32_t descriptors);

  /// Keeps others from entering while it lives, from when all that entered before is visible.
  class Turn {
   public:
    explicit Turn(CommitQueue* queue);

   private:
    std::unique_lock<std::mutex> lock_;
  };
  /// enter() for whoever has the turn.
  Status enter_in_turn(Ticket* ticket, std::uint64_t record_bytes, std::uint32_t records,
                       std::uint32_t descriptors);

  /// Gives up a ticket that cannot be completed. The log has a hole then, so the store stops.
  void abandon(Ticket* ticket, const Status& why);

  /// Commits the sealed ticket; returns when it is durable as it asked and visible.
  Status finish(Ticket* ticket);

  /// Waits until `over()`, which is asked after each commit, or until `deadline`: then false.
  bool wait_until(std::chrono::steady_clock::time_point deadline,
                  const std::function<bool()>& over);

  /// Makes all that is visible durable against power loss.
  Status sync(std::uint64_t visible);

 private:
  void commit_ready();
  Status make_durable(const std::deque<Ticket*>& group);
  Status commit_log(std::uint64_t end, bool sync);
  static void complete(Ticket* ticket, const Status& status);
  void wake_waiters();

  wal::Log* log_;
  Fault* fault_;
  Statistics* statistics_;
  std::function<Status(Ticket&)> publish_;
  std::mutex turn_mutex_;   // who may enter; taken before the others
  std::mutex queue_mutex_;  // guards queue_ and reserve; never held during I/O on data
  std::condition_variable empty_;
  std::deque<Ticket*> queue_;
  std::size_t under_way_ = 0;  // tickets that entered and are not done
  std::mutex commit_mutex_;
  std::atomic<int> waiting_{0};  // in wait_until()
  std::mutex wait_mutex_;
  std::condition_variable committed_;
};

}  // namespace breccia::ordered
