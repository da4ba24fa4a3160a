#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "base/result.h"

/// What becomes of std::bad_alloc: inside the library it may come out of any call, but none leaves
/// it, or a thread of its own.

namespace breccia::base {

/// work(), which returns a Status or a Result; MemoryLimit where that found no memory. Without a
/// message, as that would want memory, too.
template <class Work>
auto or_memory_limit(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Status::MemoryLimit();
  }
}

/// Does work() as far as there is memory: for messages, counts and what else nobody depends on.
template <class Work>
void as_memory_allows(const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {  // that is what it says
  }
}

/// IOError; `what` is said as far as there is memory.
inline Status io_error(const char* what) {
  try {
    return Status::IOError(what);
  } catch (const std::bad_alloc&) {
    return Status::IOError();
  }
}

/// work(), and whatever it throws is an error: where nobody catches, or something is to be done
/// behind it in any case.
template <class Work>
Status or_error(const Work& work) noexcept {
  try {
    return or_memory_limit(work);
  } catch (const std::exception& error) {
    return io_error(error.what());
  } catch (...) {
    return io_error("what was thrown is no exception");
  }
}

/// A copy; where there is no memory for its words, an error all the same.
inline Status copy_of(const Status& status) {
  try {
    return status;
  } catch (const std::bad_alloc&) {
    return status.IsMemoryLimit() ? Status::MemoryLimit() : Status::IOError();
  }
}

/// How long to wait before the next try of what found no memory: longer from time to time.
class MemoryPause {
 public:
  explicit MemoryPause(std::chrono::milliseconds max) : max_(max) {}
  [[nodiscard]] std::chrono::milliseconds next() {
    const auto pause = next_;
    next_ = std::min(2 * next_, max_);
    return pause;
  }
  void start_over() { next_ = std::chrono::milliseconds(1); }

 private:
  const std::chrono::milliseconds max_;
  std::chrono::milliseconds next_{1};
};

/// or_memory_limit(), again and again for about a second, while the answer is MemoryLimit: for what
/// others depend on by now. What `work` did before it failed is there when it is called again.
template <class Work>
Status with_patience(const Work& work) {
  constexpr int kTries = 20;
  MemoryPause pause(std::chrono::milliseconds(64));
  for (int left = kTries - 1;; --left) {
    Status status = or_memory_limit(work);
    if (!status.IsMemoryLimit() || left == 0) return status;
    std::this_thread::sleep_for(pause.next());
  }
}

}  // namespace breccia::base
