#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace breccia::bench {

/// How even a run was, second by second.
struct Series {
  std::uint64_t least = 0;
  std::uint64_t median = 0;
  /// Seconds in which fewer than half of the median second's requests finished.
  std::uint64_t stalls = 0;
};

/// Shape   requests finished in each whole second; none: all zero.
inline Series series_of(const std::vector<std::uint64_t>& per_second) {
  if (per_second.empty()) return {};
  std::vector<std::uint64_t> sorted = per_second;
  std::sort(sorted.begin(), sorted.end());
  Series series{.least = sorted.front(), .median = sorted[sorted.size() / 2]};
  series.stalls = static_cast<std::uint64_t>(
      std::count_if(sorted.begin(), sorted.end(),
                    [&](std::uint64_t requests) { return 2 * requests < series.median; }));
  return series;
}

}  // namespace breccia::bench
