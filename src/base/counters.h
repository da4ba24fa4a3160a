#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/thread_slot.h"

namespace breccia::base {

/// kCount counters that many threads add to and few read.
///
/// Each thread adds to cells of its own, without a locked instruction; threads without a slot share
/// cells.
///
/// Threads any. A sum misses what is added while it is taken.
/// Cost    an addition: the thread's slot, a load and a store.
template <std::size_t kCount>
class Counters {
 public:
  void add(std::size_t counter, std::uint64_t more) {
    const std::uint32_t slot = thread_slot();
    std::atomic<std::uint64_t>& cell = shares_[slot].cells[counter];
    if (slot < kThreadSlots) {
      cell.store(cell.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    } else {
      cell.fetch_add(more, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] std::uint64_t sum(std::size_t counter) const {
    std::uint64_t sum = 0;
    for (const Share& share : shares_) sum += share.cells[counter].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Share {
    std::array<std::atomic<std::uint64_t>, kCount> cells{};
  };
  std::array<Share, kThreadSlots + 1> shares_;
};

}  // namespace breccia::base
