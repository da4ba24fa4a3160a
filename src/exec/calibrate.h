#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace breccia::exec {

/// Rates of this machine, measured at start-up; they choose roads, never results.
struct Calibration {
  double copy_in_bytes_per_s = 0;       // host to backend memory, 16 MiB pieces
  double copy_out_bytes_per_s = 0;      // backend to host memory
  double zero_copy_bytes_per_s = 0;     // backend reads host memory in sequence
  double host_gather_rows_per_s = 0;    // host threads gather random 128-byte rows
  double zero_copy_accesses_per_s = 0;  // backend reads random 128-byte rows of host memory
  double launch_us = 0;                 // shortest launch and wait
};

/// The shortest of `times` runs of `body`, in seconds.
template <class Body>
double shortest_seconds(int times, const Body& body) {
  double shortest = std::numeric_limits<double>::max();
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, taken.count());
  }
  return shortest;
}

/// What backends without a device report: how fast this host gathers rows and starts a batch.
/// Measured when it is asked for first, then remembered.
/// Bound   about 50 milliseconds and 32 MiB, once in a process.
/// Threads any.
const Calibration& host_calibration();

}  // namespace breccia::exec
