#pragma once

#include <cstdint>

#include "base/assert.h"

namespace breccia::base {

/// Mixes a 64-bit word so that near inputs give unrelated outputs.
/// Source  SplitMix64's finalizer (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

/// A small seeded generator; the same seed gives the same stream on every machine.
/// Threads one owner.
/// Source  xoshiro256** (Blackman, Vigna 2018), seeded by SplitMix64.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) word = seed = mix64(seed);
  }

  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~0ULL; }
  std::uint64_t operator()() { return next(); }

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound).
  std::uint64_t below(std::uint64_t bound) {
    BRECCIA_ASSERT(bound > 0);
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// True once in `times` on average.
  bool one_in(std::uint64_t times) { return below(times) == 0; }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t word, int by) {
    return (word << by) | (word >> (64 - by));
  }
  std::uint64_t state_[4];
};

}  // namespace breccia::base
