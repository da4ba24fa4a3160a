#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/assert.h"
#include "base/random.h"

namespace breccia::bench::tables {

/// Ranks 0, 1, 2, ... with frequencies as 1 / (rank + 1)^theta, exactly, for any theta from 0 up.
/// The generators of ycsb_generators.h and key_choice.h take an integral for the sum behind the
/// second rank: at theta 0.99 their third rank comes 19 % too often, and at 1 they divide by zero.
/// Threads any number, each with its own Random.
/// Cost    37 ns at theta 0.99, as the integral's; nothing that grows with `items`.
/// Source  Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone
///         discrete distributions", 1996; written with expm1 and log1p, as theta may be near 1.
class ExactZipf {
 public:
  /// Shape   items > 0, theta >= 0.
  ExactZipf(std::uint64_t items, double theta)
      : items_(items),
        theta_(theta),
        area_first_(area(1.5) - 1),
        area_all_(area(static_cast<double>(items) + 0.5)),
        sure_(2 - area_inverse(area(2.5) - height(2))) {
    BRECCIA_ASSERT(items > 0 && theta >= 0);
  }

  std::uint64_t next(base::Random* random) const {
    for (;;) {
      const double u = area_all_ + random->unit() * (area_first_ - area_all_);
      const double x = area_inverse(u);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(items_));
      if (k - x <= sure_ || u >= area(k + 0.5) - height(k)) {
        return static_cast<std::uint64_t>(k) - 1;
      }
    }
  }

 private:
  /// x^-theta, and the area below it from 1 to x.
  [[nodiscard]] double height(double x) const { return std::exp(-theta_ * std::log(x)); }
  [[nodiscard]] double area(double x) const {
    const double log = std::log(x);
    const double part = (1 - theta_) * log;
    return log * (part == 0 ? 1 : std::expm1(part) / part);
  }
  [[nodiscard]] double area_inverse(double of) const {
    // Rounding may lead below the end of the area that an infinite x has.
    const double part = std::max(-1.0, of * (1 - theta_));
    return std::exp(of * (part == 0 ? 1 : std::log1p(part) / part));
  }

  std::uint64_t items_;
  double theta_;
  double area_first_;
  double area_all_;
  double sure_;  // so near below a number, no second look is needed
};

}  // namespace breccia::bench::tables
