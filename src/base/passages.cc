#include "base/passages.h"

#include <chrono>
#include <thread>

namespace breccia::base {

/// Who comes from here on is in the other half, which everybody has left: the wait before this one
/// saw to that, and whoever came into it since has seen that it was not the one.
void Passages::wait() {
  const std::lock_guard lock(mutex_);
  const std::uint32_t before = half_.load(std::memory_order_relaxed);
  half_.store(1 - before);
  drain(before);
}

/// Waits until as many have left a half as have come into it. Those that left are counted first:
/// nobody leaves who has not come in.
void Passages::drain(std::uint32_t half) {
  constexpr std::chrono::microseconds kPause(20);
  for (;;) {
    std::uint64_t out = 0;
    for (const Counters& one : counters_) out += one.out[half].load();
    std::uint64_t in = 0;
    for (const Counters& one : counters_) in += one.in[half].load();
    if (in == out) return;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace breccia::base
