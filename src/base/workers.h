#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"

namespace breccia::base {

/// A few threads that run what they are given, in order of arrival. They start with the first task.
/// At most limits::kTasksMax tasks wait.
/// Threads submit() by any number.
class Workers {
 public:
  explicit Workers(int threads) : threads_max_(threads) {}
  ~Workers() { stop(); }

  /// Errors  Incomplete: too many wait; ShutdownInProgress: after stop(). The task was not taken.
  [[nodiscard]] Status submit(std::function<void()> task);
  /// Finishes what was submitted and takes no more.
  void stop();

 private:
  void run();

  const int threads_max_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace breccia::base
