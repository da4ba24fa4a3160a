#include "batch/async_queue.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/assert.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/memory.h"

namespace breccia::batch {

namespace {

bool are_same(const WriteOptions& a, const WriteOptions& b) {
  return a.durability == b.durability && a.wait_us_max == b.wait_us_max;
}

}  // namespace

std::uint64_t AsyncBatch::weight() const {
  return std::max<std::uint64_t>(
      1, requests->write_count() + requests->read_count() + requests->range_count());
}

AsyncQueue::AsyncQueue(const AdmissionOptions& options, Run run)
    : run_(std::move(run)), admission_(options, base::now_us()), mode_(admission_.mode()) {
  group_.reserve(1);
}

Status AsyncQueue::submit(AsyncBatch batch) {
  BRECCIA_ASSERT(batch.requests != nullptr && batch.done != nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Status::ShutdownInProgress("the store is closing");
    if (queue_.size() >= limits::kAsyncBatchesMax) {
      return Status::Incomplete("too many batches wait",
                                "submit it again when others have finished");
    }
    // What may fail comes before anything is changed.
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    const std::uint64_t weight = batch.weight();
    queue_.push_back({std::move(batch), weight});
    figures_.queued += weight;
    follow(admission_.on_arrival(base::now_us(), weight));
  }
  wakes_.notify_one();
  return Status::OK();
}

void AsyncQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakes_.notify_one();
  if (thread_.joinable()) thread_.join();
}

AdmissionFigures AsyncQueue::figures() const {
  const std::lock_guard lock(mutex_);
  AdmissionFigures figures = figures_;
  figures.mode = admission_.mode();
  figures.threshold = admission_.threshold();
  return figures;
}

/// Does what a decision says: all that wait may be run now, or none of them.
void AsyncQueue::follow(const Decision& decision) {
  figures_.switches += admission_.mode() == mode_ ? 0 : 1;
  mode_ = admission_.mode();
  look_again_us_ = decision.look_again_us;
  if (decision.take == 0) return;
  BRECCIA_ASSERT(admitted_ <= queue_.size());
  for (; admitted_ < queue_.size(); ++admitted_) {
    queue_[admitted_].alone = decision.mode == Mode::kAlone;
  }
}

void AsyncQueue::work() {
  std::unique_lock lock(mutex_);
  const auto may_go_on = [&] { return admitted_ > 0 || stopping_; };
  while (true) {
    if (look_again_us_ == Decision::kNever) {
      wakes_.wait(lock, [&] { return may_go_on() || look_again_us_ != Decision::kNever; });
    } else {
      const auto until =
          std::chrono::steady_clock::time_point(std::chrono::microseconds(look_again_us_));
      wakes_.wait_until(lock, until, may_go_on);
    }
    if (stopping_) admitted_ = queue_.size();
    if (admitted_ > 0) {
      run_group(&lock);
    } else if (stopping_) {
      return;
    } else if (base::now_us() >= look_again_us_) {
      follow(admission_.on_timer(base::now_us()));
    }
  }
}

/// How many of those admitted go together.
std::size_t AsyncQueue::group_size() const {
  BRECCIA_ASSERT(admitted_ > 0 && admitted_ <= queue_.size());
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < admitted_; ++i) {
    requests += queue_[i].weight;
    bytes += queue_[i].batch.requests->record_bytes();
    const bool fits = queue_[i].weight < limits::kAsyncLargeRequests &&
                      requests <= limits::kAsyncGroupRequestsMax &&
                      bytes <= limits::kAsyncGroupBytesMax &&
                      are_same(queue_[i].batch.options, queue_[0].batch.options);
    if (!fits) return std::max<std::size_t>(i, 1);
  }
  return admitted_;
}

/// Takes those that go together; where there is no memory for a group, fewer of them.
void AsyncQueue::take_group() {
  BRECCIA_ASSERT(group_.empty());
  const std::size_t wanted = group_size();
  base::as_memory_allows([&] { group_.reserve(wanted); });
  std::uint64_t weight = 0;
  taken_alone_ = 0;
  for (std::size_t left = std::min(wanted, group_.capacity()); left > 0; --left) {
    Waiting& first = queue_.front();
    weight += first.weight;
    taken_alone_ += first.alone ? first.weight : 0;
    group_.push_back(std::move(first.batch));
    queue_.pop_front();
  }
  BRECCIA_ASSERT(!group_.empty() && group_.size() <= admitted_);
  admitted_ -= group_.size();
  BRECCIA_ASSERT(weight <= figures_.queued && taken_alone_ <= weight);
  figures_.queued -= weight;
  figures_.batches += group_.size();
  ++figures_.groups;
}

void AsyncQueue::run_group(std::unique_lock<std::mutex>* lock) {
  take_group();
  lock->unlock();
  run_(group_);
  for (AsyncBatch& batch : group_) {
    // Moved, as a copy might find no memory; a callback that finds none was called all the same.
    base::as_memory_allows([&] { batch.done(std::move(batch.status)); });
  }
  group_.clear();
  lock->lock();
  if (taken_alone_ > 0) follow(admission_.on_alone_done(base::now_us(), taken_alone_));
}

}  // namespace breccia::batch
