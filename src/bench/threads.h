#pragma once

#include <breccia/status.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace breccia::bench {

using Clock = std::chrono::steady_clock;

inline std::uint64_t ns_between(Clock::time_point begin, Clock::time_point end) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
}

/// Runs work(thread) on so many threads; the first error.
template <class Work>
Status on_threads(std::uint32_t count, const Work& work) {
  std::vector<Status> statuses(count);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] { statuses[t] = work(t); });
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  return Status::OK();
}

}  // namespace breccia::bench
