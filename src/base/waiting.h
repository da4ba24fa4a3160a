#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace breccia::base {

/// What a thread does while another one is about to do something: nothing, for a moment.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `word` is something else than `old`, and returns that: awake at first, as whoever
/// stores it needs some microseconds, and to be woken takes more; then others have the core; then
/// asleep. Whoever stores it notifies.
/// Threads any.
template <class T>
T wait_awake(const std::atomic<T>& word, T old) {
  constexpr int kTries = 64;
  constexpr std::chrono::microseconds kAwakeMax{50};
  T now = word.load(std::memory_order_acquire);
  for (int i = 0; i < kTries && now == old; ++i) {
    relax();
    now = word.load(std::memory_order_acquire);
  }
  if (now != old) return now;
  const auto deadline = std::chrono::steady_clock::now() + kAwakeMax;
  while (std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    now = word.load(std::memory_order_acquire);
    if (now != old) return now;
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

/// Locks a mutex that others hold for less than it takes to sleep and to be woken.
inline std::unique_lock<std::mutex> lock_awake(std::mutex& mutex) {
  constexpr int kTries = 64;
  for (int i = 0; i < kTries; ++i) {
    if (mutex.try_lock()) return {mutex, std::adopt_lock};
    relax();
  }
  return std::unique_lock(mutex);
}

}  // namespace breccia::base
