#pragma once

#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>

#include <chrono>
#include <cstdint>

/// RocksDB's perf context, where its fields have an exact meaning here (docs/statistics.md).

namespace breccia::base {

using PerfField = std::uint64_t rocksdb::PerfContext::*;

/// True if the calling thread's perf level asks for counts.
inline bool perf_counts() { return rocksdb::GetPerfLevel() >= rocksdb::PerfLevel::kEnableCount; }

inline void perf_add(PerfField field, std::uint64_t more) {
  if (perf_counts()) rocksdb::get_perf_context()->*field += more;
}

/// Adds the nanoseconds until done(), or its end, to a field, if the perf level of the thread that
/// made it asks for times.
/// Threads done() by any, before its end, which is where it was made.
class PerfTimer {
 public:
  explicit PerfTimer(PerfField field)
      : field_(rocksdb::GetPerfLevel() >= rocksdb::PerfLevel::kEnableTimeExceptForMutex ? field
                                                                                        : nullptr) {
    if (field_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~PerfTimer() {
    if (field_ == nullptr) return;
    if (end_ == Time()) done();
    const std::chrono::nanoseconds spent = end_ - begin_;
    rocksdb::get_perf_context()->*field_ += static_cast<std::uint64_t>(spent.count());
  }
  void done() {
    if (field_ != nullptr) end_ = std::chrono::steady_clock::now();
  }
  PerfTimer(const PerfTimer&) = delete;
  PerfTimer& operator=(const PerfTimer&) = delete;

 private:
  using Time = std::chrono::steady_clock::time_point;
  const PerfField field_;
  Time begin_;
  Time end_;
};

}  // namespace breccia::base
