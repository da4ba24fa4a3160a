#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace breccia::base {

/// Microseconds of the clock that only goes forward.
inline std::uint64_t now_us() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

/// `wait_us` microseconds from now; no longer than a year, which any number stands for that would
/// not fit.
inline std::chrono::steady_clock::time_point deadline_after(std::uint64_t wait_us) {
  constexpr std::uint64_t kYearUs = 365ULL * 24 * 3600 * 1'000'000;
  return std::chrono::steady_clock::now() + std::chrono::microseconds(std::min(wait_us, kYearUs));
}

/// Measures the time since it was made.
class Stopwatch {
 public:
  [[nodiscard]] std::uint64_t micros() const { return now_us() - begin_us_; }

 private:
  const std::uint64_t begin_us_ = now_us();
};

}  // namespace breccia::base
