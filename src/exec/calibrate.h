#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "exec/backend.h"

namespace breccia::exec {

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
