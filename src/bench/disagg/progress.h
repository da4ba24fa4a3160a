#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "bench/threads.h"
#include "console/console.h"

namespace breccia::bench::disagg {

/// How much is done of what takes long, and when all of it will be; a line on stderr.
/// Threads any; the line is that of who calls show(), one of them.
class Progress {
 public:
  /// Of `all`, which are called `what`.
  Progress(bool is_on, std::string what, std::uint64_t all)
      : what_(std::move(what)), all_(all), line_(is_on), begin_(Clock::now()) {}

  void add(std::uint64_t more) { done_.fetch_add(more, std::memory_order_relaxed); }

  void show() {
    if (!line_.due()) return;
    const std::uint64_t done = done_.load(std::memory_order_relaxed);
    const double seconds = 1e-9 * static_cast<double>(ns_between(begin_, Clock::now()));
    const double per_sec = static_cast<double>(done) / seconds;
    const double left = per_sec > 0 ? static_cast<double>(all_ - done) / per_sec : 0;
    line_.show(fmt::format("{}: {} of {} keys, {} a second, {} left", what_,
                           console::with_commas(done), console::with_commas(all_),
                           console::with_commas(static_cast<std::uint64_t>(per_sec)),
                           console::human_seconds(left)));
  }

 private:
  const std::string what_;
  const std::uint64_t all_;
  std::atomic<std::uint64_t> done_{0};
  console::ProgressLine line_;
  const Clock::time_point begin_;
};

}  // namespace breccia::bench::disagg
