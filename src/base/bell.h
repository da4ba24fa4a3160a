#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace breccia::base {

/// Says to one thread that it should look whether there is something to do. What rings while that
/// thread is at work is heard by its next wait.
/// Threads ring() any; wait() and wait_for() one.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    rings_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    rings_.wait(lock, [this] { return rung_; });
    rung_ = false;
  }
  /// The same, for at most `most`.
  void wait_for(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    rings_.wait_for(lock, most, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable rings_;
  bool rung_ = false;
};

}  // namespace breccia::base
