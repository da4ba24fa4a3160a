#pragma once

#include <breccia/store_options.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "batch/admission.h"
#include "batch/requests.h"

namespace breccia::batch {

/// One batch that was submitted to run later.
struct AsyncBatch {
  WriteOptions options;
  Requests* requests;
  std::function<void(Status)> done;
  Status status;  // set by whoever ran it

  /// What it counts for admission: an empty batch is a request, too.
  [[nodiscard]] std::uint64_t weight() const;
};

/// What the queue did so far, and how it stands.
struct AdmissionFigures {
  Mode mode = Mode::kAlone;
  std::uint64_t threshold = 0;  // requests
  std::uint64_t queued = 0;     // requests that wait
  std::uint64_t switches = 0;   // of the mode
  std::uint64_t batches = 0;    // that were run
  std::uint64_t groups = 0;     // that they were run in
};

/// Batches on their way to the engine, in the order in which they were submitted: a thread of the
/// queue's own runs them, as many with one call as admission (batch/admission.h) lets go and as fit
/// together, and calls back for each.
///
/// Admission says only how long batches wait. Whoever waits goes in a group with its neighbours,
/// also at low rates: a batch that finds the queue empty is run alone and at once.
///
/// Order   batches take effect, and `done` is called, in the order of submit().
/// Bound   limits::kAsyncBatchesMax batches wait; a group has limits::kAsyncGroupRequestsMax
///         requests and limits::kAsyncGroupBytesMax bytes, or is one batch.
/// Threads submit() and figures() by any number, also out of `done`.
/// Source  [hrocks] sections 4 (4), 6 and 6.7. Deviation: batches that go at once are grouped, too,
///         and every group goes where one batch of its size would (docs/impl/ordered.md).
class AsyncQueue {
 public:
  /// `run` runs a group and leaves each batch's status.
  using Run = std::function<void(std::span<AsyncBatch> group)>;

  AsyncQueue(const AdmissionOptions& options, Run run);
  ~AsyncQueue() { stop(); }
  AsyncQueue(const AsyncQueue&) = delete;
  AsyncQueue& operator=(const AsyncQueue&) = delete;

  /// Errors  Incomplete: too many wait; ShutdownInProgress: after stop(); std::bad_alloc. The batch
  ///         was not taken.
  [[nodiscard]] Status submit(AsyncBatch batch);
  /// Runs what was submitted and takes no more.
  void stop();

  [[nodiscard]] AdmissionFigures figures() const;

 private:
  struct Waiting {
    AsyncBatch batch;
    std::uint64_t weight;
    bool alone = false;  // admitted so: admission wants to hear of its end
  };

  void work();
  void run_group(std::unique_lock<std::mutex>* lock);
  [[nodiscard]] std::size_t group_size() const;
  void take_group();
  void follow(const Decision& decision);

  const Run run_;
  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  Admission admission_;
  Mode mode_;
  std::deque<Waiting> queue_;
  std::vector<AsyncBatch> group_;  // that is run now; always with room for one
  std::size_t admitted_ = 0;       // the first so many of queue_ may be run
  std::uint64_t taken_alone_ = 0;  // requests of group_ that admission let go alone
  std::uint64_t look_again_us_ = Decision::kNever;
  bool stopping_ = false;
  AdmissionFigures figures_;
  std::thread thread_;  // starts with the first batch
};

}  // namespace breccia::batch
