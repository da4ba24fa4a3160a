#include "exec/calibrate.h"

#include <array>
#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "base/random.h"

namespace breccia::exec {

namespace {

using Row = std::array<std::uint64_t, 16>;

constexpr std::uint64_t kRows = (32ULL << 20) / sizeof(Row);
constexpr std::uint64_t kGathered = 1 << 16;
constexpr int kTimes = 3;

double gather_rows_per_s() {
  const std::vector<Row> rows(kRows, Row{});
  std::vector<Row> gathered(kGathered);
  const double seconds = shortest_seconds(kTimes, [&] {
    base::parallel_for(std::uint64_t{0}, kGathered,
                       [&](std::uint64_t i) { gathered[i] = rows[base::mix64(i) % kRows]; });
  });
  return static_cast<double>(kGathered) / seconds;
}

Calibration measure() {
  Calibration result;
  result.host_gather_rows_per_s = gather_rows_per_s();
  result.launch_us = 1e6 * shortest_seconds(kTimes, [] { base::parallel_for(0, 2, [](int) {}); });
  return result;
}

}  // namespace

const Calibration& host_calibration() {
  static const Calibration calibration = measure();
  return calibration;
}

}  // namespace breccia::exec
