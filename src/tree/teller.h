#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace breccia::tree {

/// Tells events one after the other, in the order in which they came, on a thread of its own: who
/// hears them may wait for anything but another event.
///
/// Threads any; start() and stop() by one.
class Teller {
 public:
  Teller() = default;
  ~Teller() { stop(); }
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

  /// Begins to tell; what was posted before comes first.
  void start();
  /// Tells what was posted, if it has ever started, and takes no more.
  void stop();

  /// Does nothing after stop().
  void post(std::function<void()> event);
  /// Events that were posted up to now.
  [[nodiscard]] std::uint64_t posted() const;
  /// Waits until `count` events are told. False: this is who is being told one, and did not wait.
  /// Shape   it has started.
  bool wait(std::uint64_t count);

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> events_;
  std::uint64_t posted_ = 0;
  std::uint64_t told_ = 0;
  bool stopping_ = false;
  std::thread thread_;
  std::thread::id id_;  // once it runs
};

}  // namespace breccia::tree
