#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/prefetch.h"
#include "base/waiting.h"
#include "record/record.h"
#include "runs/refs.h"
#include "wal/segment_table.h"

namespace breccia::ordered {

/// Payloads that come to the host's memory one by one while a device searches for them
/// (runs::Backend::search_watched).
/// Threads any number, each waits for reads of its own.
class Arrivals {
 public:
  /// `fetched_bytes`: of each record, so many are fetched as soon as its place is known.
  Arrivals(const std::uint64_t* payloads, const wal::SegmentTable& table,
           std::uint64_t fetched_bytes)
      : payloads_(payloads), places_(table.places()), fetched_bytes_(fetched_bytes) {}

  /// True when all of payloads [begin, end) are there; false if they take much longer than a small
  /// search does: it may have failed, which whoever asked for it knows first.
  [[nodiscard]] bool wait(std::uint64_t begin, std::uint64_t end) const {
    const auto until = std::chrono::steady_clock::now() + kLongest;
    for (std::uint64_t i = begin; i < end; ++i) {
      // What a device writes is no other thread's; an acquire keeps later reads behind it.
      std::uint64_t& place = const_cast<std::uint64_t&>(payloads_[i]);
      const std::atomic_ref<std::uint64_t> payload(place);
      for (int looks = 1; payload.load(std::memory_order_acquire) == runs::kPending; ++looks) {
        base::relax();
        const bool is_time_to_ask = looks % kLooks == 0;
        if (is_time_to_ask && std::chrono::steady_clock::now() > until) return false;
      }
      fetch(place);
    }
    return true;
  }

 private:
  static constexpr std::chrono::microseconds kLongest{2000};
  static constexpr int kLooks = 64;

  void fetch(std::uint64_t payload) const {
    if (payload == runs::kNotFound) return;
    const std::byte* const record = places_.at(record::position_of(payload));
    for (std::uint64_t at = 0; at < fetched_bytes_; at += 64) base::prefetch_far(record + at);
    base::prefetch_far(record + fetched_bytes_ - 1);
  }

  const std::uint64_t* const payloads_;
  const wal::SegmentTable::Places places_;
  const std::uint64_t fetched_bytes_;
};

}  // namespace breccia::ordered
