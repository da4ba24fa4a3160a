#pragma once

#include <breccia/store_options.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "base/fault.h"
#include "base/result.h"
#include "wal/log.h"

namespace breccia::wal {

/// A frame on its way from reserve to commit. Engines derive theirs, with what they publish.
struct Ticket {
  Frame frame;
  Durability durability = Durability::kDefault;
  bool aligned = false;  // as Log::reserve() has it

  /// kLeads: ready, and its owner commits what is ready from here on.
  enum class State : std::uint32_t { kFilling, kReady, kLeads, kDone };
  std::atomic<State> state{State::kFilling};
  Status status;
  Ticket* next = nullptr;  // behind it in the queue; nobody needs memory to stand there
};

/// What a group of commits did, for who counts.
struct CommitNote {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;    // of those frames
  std::uint64_t commits = 0;  // calls of the log
  std::optional<std::uint64_t> sync_micros = {};
};

/// Tickets one behind the other, in the order of their places in the log.
/// Threads one at a time.
class TicketList {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] Ticket* front() const { return first_; }
  void push_back(Ticket* ticket);
  void pop_front();
  /// True if there are `count`, and they stand in the order of the log.
  [[nodiscard]] bool holds(std::size_t count) const;

 private:
  Ticket* first_ = nullptr;
  Ticket* last_ = nullptr;
};

/// What the queue asks of its engine.
struct CommitEnvironment {
  /// Makes one committed ticket's records visible; called in order, by one at a time. Where it
  /// finds no memory, not even after a while, the store stops.
  std::function<Status(Ticket& ticket)> publish;
  /// The position below which all records are visible.
  std::function<std::uint64_t()> visible;
  std::function<void(const CommitNote& note)> note;
};

/// Orders commits: batches reserve log space in arrival order, fill their frames at the same time,
/// and are made durable and visible in that order, as many with one write as are ready.
///
/// Threads any number in enter() and finish().
class CommitQueue {
 public:
  CommitQueue(Log* log, base::Fault* fault, CommitEnvironment environment)
      : log_(log), fault_(fault), environment_(std::move(environment)) {}

  /// Takes the batch's place in the log. Whoever has one must give the ticket to finish() or
  /// abandon(): those behind it wait.
  /// Errors  the store's fault, the log's, or MemoryLimit: nothing was taken.
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

  /// Makes all that is visible survive the process; with `sync`, also a power cut.
  Status keep(bool sync);
  [[nodiscard]] std::uint64_t visible() const { return environment_.visible(); }

 private:
  /// Commits what is ready until nobody has finished meanwhile, or another ticket's owner leads.
  void lead(const Ticket& own);
  /// True if the first ticket's owner leads from here on: it is ready, and `to_any`, or one that is
  /// ready with it wants a sync.
  [[nodiscard]] bool pass_lead(bool to_any);
  void commit_ready();
  Status make_durable(const TicketList& group);
  Status commit_log(std::uint64_t end, bool sync);
  static void complete(Ticket* ticket, const Status& status);
  void wake_waiters();

  Log* log_;
  base::Fault* fault_;
  const CommitEnvironment environment_;
  std::mutex turn_mutex_;   // who may enter; taken before the others
  std::mutex queue_mutex_;  // guards queue_ and reserve; never held during I/O on data
  std::condition_variable empty_;
  TicketList queue_;
  std::size_t under_way_ = 0;               // tickets that entered and are not done
  std::atomic<std::uint64_t> finished_{0};  // calls that the leader has not seen; 0: nobody leads
  std::mutex commit_mutex_;
  std::atomic<int> waiting_{0};  // in wait_until()
  std::mutex wait_mutex_;
  std::condition_variable committed_;
};

}  // namespace breccia::wal
