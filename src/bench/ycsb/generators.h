#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/assert.h"
#include "base/random.h"

/// YCSB's ways to choose records.
/// Source  [ycsb] Cooper et al. 2010 and its program's generators, whose constants and rounding are
///         kept; the Zipfian one is Gray et al., "Quickly generating billion-record synthetic
///         databases", 1994.
namespace breccia::bench {

/// FNV-1a of the eight bytes of `value`, lowest first, and the absolute value of it as a signed
/// number: YCSB's hash of record numbers.
constexpr std::uint64_t ycsb_hash(std::uint64_t value) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (int i = 0; i < 8; ++i) {
    hash ^= value & 0xff;
    hash *= 1099511628211ULL;
    value >>= 8;
  }
  return hash >> 63 == 0 ? hash : ~hash + 1;
}

/// The sum of 1 / i^theta for i in (from, to]: Zipf's normalizing constant, in steps.
/// Cost    one power per item.
inline double zeta(std::uint64_t from, std::uint64_t to, double theta) {
  double sum = 0;
  for (std::uint64_t i = from; i < to; ++i) sum += 1 / std::pow(static_cast<double>(i + 1), theta);
  return sum;
}

inline constexpr double kYcsbTheta = 0.99;

/// Ranks 0, 1, 2, ... with frequencies as 1 / (rank + 1)^theta. The number of items may grow.
/// Threads one owner.
class ZipfianGenerator {
 public:
  explicit ZipfianGenerator(std::uint64_t items)
      : ZipfianGenerator(items, zeta(0, items, kYcsbTheta)) {}

  /// With `zeta_items` known beforehand.
  ZipfianGenerator(std::uint64_t items, double zeta_items) : items_(items), zeta_(zeta_items) {
    BRECCIA_ASSERT(items > 0);
    set_eta();
  }

  /// A rank below `items`, which must not be less than at the last call.
  std::uint64_t next(std::uint64_t items, base::Random* random) {
    if (items != items_) {
      BRECCIA_ASSERT(items > items_);
      zeta_ += zeta(items_, items, kYcsbTheta);
      items_ = items;
      set_eta();
    }
    const double u = random->unit();
    const double uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < 1 + std::pow(0.5, kYcsbTheta)) return 1;
    const double rank = static_cast<double>(items_) * std::pow(eta_ * u - eta_ + 1, kAlpha);
    return std::min(items_ - 1, static_cast<std::uint64_t>(rank));
  }

 private:
  static constexpr double kAlpha = 1 / (1 - kYcsbTheta);

  void set_eta() {
    const double part = 1 - std::pow(2.0 / static_cast<double>(items_), 1 - kYcsbTheta);
    eta_ = part / (1 - zeta(0, 2, kYcsbTheta) / zeta_);
  }

  std::uint64_t items_;
  double zeta_;
  double eta_ = 0;
};

/// Zipfian frequencies whose popular records lie anywhere: a rank among ten billion is hashed to a
/// record, so the shape does not depend on the number of records.
/// Threads one owner.
class ScrambledZipfianGenerator {
 public:
  /// A record below `records`.
  std::uint64_t next(std::uint64_t records, base::Random* random) {
    return ycsb_hash(ranks_.next(kItems, random)) % records;
  }

 private:
  static constexpr std::uint64_t kItems = 10'000'000'001;
  static constexpr double kZeta = 26.46902820178302;
  ZipfianGenerator ranks_{kItems, kZeta};
};

}  // namespace breccia::bench
