#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/thread_slot.h"

namespace breccia::base {

/// Waits for all who are inside, and for nobody who comes later.
/// Threads any. Who has entered may leave on another thread.
/// Source  sleepable RCU (McKenney): two halves, counters of who came and who left in each.
///         Deviation: who comes looks again, so one half is waited for, and not both.
class Passages {
 public:
  /// What to leave with.
  struct Pass {
    std::uint32_t half;
  };

  /// Order   what was stored before a wait() began is seen by who enters behind it.
  /// Cost    an addition to a line of the thread's own.
  [[nodiscard]] Pass enter() {
    for (;;) {
      const std::optional<Pass> pass = come(half_.load(std::memory_order_acquire));
      if (pass.has_value()) return *pass;
    }
  }
  /// A step of enter(): into a half that was in use when it was looked at. None: it is not any
  /// more.
  [[nodiscard]] std::optional<Pass> come(std::uint32_t half) {
    const Pass pass{half};
    // Sequentially consistent, both: who waits sees the one, or this sees that he has come.
    counters().in[half].fetch_add(1);
    if (half_.load() == half) return pass;
    leave(pass);
    return std::nullopt;
  }
  void leave(const Pass& pass) { counters().out[pass.half].fetch_add(1); }

  /// Returns when everybody has left who was inside when it was called.
  /// Shape   not by who is inside.
  /// Bound   as long as the longest of these stays.
  void wait();

  /// Inside as long as it lives.
  class Inside {
   public:
    explicit Inside(Passages& passages) : passages_(passages), pass_(passages.enter()) {}
    ~Inside() { passages_.leave(pass_); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Passages& passages_;
    const Pass pass_;
  };

 private:
  struct alignas(64) Counters {
    std::atomic<std::uint64_t> in[2] = {};
    std::atomic<std::uint64_t> out[2] = {};
  };

  Counters& counters() { return counters_[thread_slot()]; }
  void drain(std::uint32_t half);

  std::mutex mutex_;  // one waits
  std::atomic<std::uint32_t> half_{0};
  std::array<Counters, kThreadSlots + 1> counters_;  // the last one is of threads without a slot
};

}  // namespace breccia::base
