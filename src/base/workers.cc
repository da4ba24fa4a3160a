#include "base/workers.h"

#include "base/limits.h"
#include "base/memory.h"

namespace breccia::base {

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakes_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Status Workers::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Status::ShutdownInProgress("the store is closing");
    if (tasks_.size() >= limits::kTasksMax) {
      return Status::Incomplete("too many batches wait",
                                "submit it again when others have finished");
    }
    // What may find no memory comes before the task is taken.
    if (static_cast<int>(threads_.size()) < threads_max_) {
      threads_.emplace_back([this] { run(); });
    }
    tasks_.push_back(std::move(task));
  }
  wakes_.notify_one();
  return Status::OK();
}

void Workers::run() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wakes_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    as_memory_allows(task);
  }
}

}  // namespace breccia::base
