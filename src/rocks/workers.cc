#include "rocks/workers.h"

namespace breccia::rocks {

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakes_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Workers::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    tasks_.push_back(std::move(task));
    if (static_cast<int>(threads_.size()) < threads_max_) {
      threads_.emplace_back([this] { run(); });
    }
  }
  wakes_.notify_one();
  return true;
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
    task();
  }
}

}  // namespace breccia::rocks
