#include "base/passages.h"

#include <chrono>
#include <thread>

namespace breccia::base {

/// Both halves, one after the other: who looked which one is in use, and has not come in yet, may
/// come into the one that was drained.
void Passages::wait() {
  const std::lock_guard lock(mutex_);
  for (int turn = 0; turn < 2; ++turn) {
    const std::uint32_t before = half_.load(std::memory_order_relaxed);
    drain(1 - before);
    half_.store(1 - before);
    drain(before);
  }
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
