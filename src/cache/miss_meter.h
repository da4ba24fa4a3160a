#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/bell.h"
#include "base/counters.h"

namespace breccia::cache {

/// What filters of a store have in common: who builds them is woken by the bell.
struct FilterNews {
  base::Bell bell;
  base::Counters<1> negatives;  // lookups that a filter answered
};

/// Counts a family's lookups that its tree has answered with "not found", and rings when they are
/// enough to pay for a filter that would have answered them; again when they are twice as many, and
/// so on.
/// Threads any; set_due() one.
class MissMeter {
 public:
  explicit MissMeter(std::shared_ptr<FilterNews> news) : news_(std::move(news)) {}

  /// Rings when `misses` (at least one) have come since the last start_over().
  void set_due(std::uint64_t misses) {
    BRECCIA_ASSERT(misses > 0);
    due_.store(misses, std::memory_order_relaxed);
  }
  /// Nothing has come.
  void start_over() { misses_.store(0, std::memory_order_relaxed); }
  void note_misses(std::uint64_t more) {
    if (more == 0) return;
    const std::uint64_t before = misses_.fetch_add(more, std::memory_order_relaxed);
    const std::uint64_t due = due_.load(std::memory_order_relaxed);
    if (before / due != (before + more) / due) news_->bell.ring();
  }
  void note_negatives(std::uint64_t more) { news_->negatives.add(0, more); }

  [[nodiscard]] std::uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_due() const { return misses() >= due_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<FilterNews> news_;
  std::atomic<std::uint64_t> misses_{0};
  std::atomic<std::uint64_t> due_{~std::uint64_t{0}};
};

}  // namespace breccia::cache
