#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/assert.h"

namespace breccia::hot {

/// How often keys were seen, by their hashes: as often as it says, or less often, as keys share
/// counters. What was long ago counts less: everything is halved now and then.
/// Shape   hashes are spread over all 64 bits.
/// Threads one owner.
/// Source  [countmin]; only the smallest of a key's counters grow, so it says too much less often
///         (conservative update, Estan and Varghese 2002).
class Sketch {
 public:
  static constexpr int kRows = 4;
  static constexpr std::uint32_t kCountMax = std::numeric_limits<std::uint16_t>::max();

  /// 8 bytes for each of `counters` of a row, a power of two.
  explicit Sketch(std::uint64_t counters) : mask_(counters - 1), counters_(kRows * counters) {
    BRECCIA_ASSERT(counters >= 2 && (counters & mask_) == 0);
  }

  /// Counts a key once more; returns how often it was seen now.
  std::uint32_t add(std::uint64_t hash) {
    const auto places = places_of(hash);
    const std::uint32_t least = least_of(places);
    if (least == kCountMax) return least;
    for (const std::uint64_t place : places) {
      if (counters_[place] == least) counters_[place] = static_cast<std::uint16_t>(least + 1);
    }
    return least + 1;
  }
  [[nodiscard]] std::uint32_t count(std::uint64_t hash) const { return least_of(places_of(hash)); }
  void halve() {
    for (std::uint16_t& counter : counters_) counter /= 2;
  }

 private:
  using Places = std::array<std::uint64_t, kRows>;

  /// One in each row.
  [[nodiscard]] Places places_of(std::uint64_t hash) const {
    constexpr std::uint64_t kFactor = 0x9e37'79b9'7f4a'7c15;
    Places places{};
    for (std::uint64_t row = 0; row < kRows; ++row) {
      hash *= kFactor;
      places[row] = row * (mask_ + 1) + (hash >> 32 & mask_);
      hash ^= hash >> 32;
    }
    return places;
  }
  [[nodiscard]] std::uint32_t least_of(const Places& places) const {
    std::uint32_t least = kCountMax;
    for (const std::uint64_t place : places) {
      least = std::min<std::uint32_t>(least, counters_[place]);
    }
    return least;
  }

  const std::uint64_t mask_;
  std::vector<std::uint16_t> counters_;
};

}  // namespace breccia::hot
