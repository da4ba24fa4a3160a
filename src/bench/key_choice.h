#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/assert.h"
#include "base/random.h"
#include "bench/key_set.h"
#include "bench/ycsb/generators.h"

/// Ways to choose keys by their numbers.
namespace breccia::bench {

/// A hash as a number below `bound`.
inline std::uint64_t below(std::uint64_t word, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

/// One of the numbers [block * size, block * size + size) below `items`, chosen by a hash.
inline std::uint64_t one_of_block(std::uint64_t block, std::uint64_t size, std::uint64_t items) {
  const std::uint64_t first = block * size;
  BRECCIA_ASSERT(first < items);
  return first + below(base::mix64(~block), std::min(size, items - first));
}

/// How many blocks of `size` numbers cover `items`.
inline std::uint64_t blocks_of(std::uint64_t items, std::uint64_t size) {
  return (items + size - 1) / size;
}

/// The numbers below `items` in an order that has none, each once.
/// Threads any number.
/// Cost    fewer than two mixes for a number in the mean.
class Permutation {
 public:
  Permutation(std::uint64_t items, std::uint64_t seed)
      : items_(items),
        bits_(std::max(1, static_cast<int>(std::bit_width(items - 1)))),
        add_(seed & (~0ULL >> (64 - bits_))) {
    BRECCIA_ASSERT(items > 0);
  }

  /// Shape   i < items.
  [[nodiscard]] std::uint64_t at(std::uint64_t i) const {
    const std::uint64_t mask = ~0ULL >> (64 - bits_);
    // A bijection on a power of two, followed until it comes back below `items`: the way from one
    // number below to the next is again a bijection.
    do {
      i = mix_bits((i + add_) & mask, bits_);
    } while (i >= items_);
    return i;
  }

 private:
  std::uint64_t items_;
  int bits_;
  std::uint64_t add_;
};

/// Ranks with frequencies as 1 / (rank + 1)^theta.
/// Threads any number.
/// Source  Gray et al. 1994, as in ZipfianGenerator; any theta, and a number of items that stays.
class Zipf {
 public:
  /// Shape   items > 0, 0 < theta < 1.
  Zipf(std::uint64_t items, double theta)
      : items_(items), theta_(theta), zeta_(zeta_of(items, theta)) {
    BRECCIA_ASSERT(items > 0 && theta > 0 && theta < 1);
    const double part = 1 - std::pow(2.0 / static_cast<double>(items), 1 - theta);
    eta_ = part / (1 - zeta(0, 2, theta) / zeta_);
  }

  /// The rank at `u` of the unit interval.
  [[nodiscard]] std::uint64_t rank(double u) const {
    const double uz = u * zeta_;
    if (uz < 1 || items_ == 1) return 0;
    if (uz < 1 + std::pow(0.5, theta_) || items_ == 2) return 1;
    const double rank =
        static_cast<double>(items_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - theta_));
    return std::min(items_ - 1, static_cast<std::uint64_t>(rank));
  }

  /// The sum of 1 / i^theta for i from 1 to `items`.
  /// Bound   kExact powers: the rest by Euler and Maclaurin's formula, to twelve digits.
  [[nodiscard]] static double zeta_of(std::uint64_t items, double theta) {
    constexpr std::uint64_t kExact = 10'000;
    if (items <= kExact) return zeta(0, items, theta);
    const double from = kExact;
    const auto to = static_cast<double>(items);
    const double integral = (std::pow(to, 1 - theta) - std::pow(from, 1 - theta)) / (1 - theta);
    const double ends = (std::pow(to, -theta) - std::pow(from, -theta)) / 2;
    const double slopes = theta * (std::pow(from, -theta - 1) - std::pow(to, -theta - 1)) / 12;
    return zeta(0, kExact, theta) + integral + ends + slopes;
  }

 private:
  std::uint64_t items_;
  double theta_;
  double zeta_;
  double eta_ = 0;
};

}  // namespace breccia::bench
