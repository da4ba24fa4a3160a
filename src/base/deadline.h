#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace breccia::base {

/// `wait_us` microseconds from now; no longer than a year, which any number stands for that would
/// not fit.
inline std::chrono::steady_clock::time_point deadline_after(std::uint64_t wait_us) {
  constexpr std::uint64_t kYearUs = 365ULL * 24 * 3600 * 1'000'000;
  return std::chrono::steady_clock::now() + std::chrono::microseconds(std::min(wait_us, kYearUs));
}

}  // namespace breccia::base
