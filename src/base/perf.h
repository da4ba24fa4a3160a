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

/// True if the calling thread's perf level asks for times.
inline bool perf_times() {
  return rocksdb::GetPerfLevel() >= rocksdb::PerfLevel::kEnableTimeExceptForMutex;
}

/// Adds what another thread took for this one's work.
inline void perf_add_time(PerfField field, std::chrono::nanoseconds spent) {
  if (perf_times())
    rocksdb::get_perf_context()->*field += static_cast<std::uint64_t>(spent.count());
}

/// Adds the nanoseconds of its life to a field, if the calling thread's perf level asks for times.
class PerfTimer {
 public:
  explicit PerfTimer(PerfField field) : field_(perf_times() ? field : nullptr) {
    if (field_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~PerfTimer() {
    if (field_ == nullptr) return;
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - begin_;
    rocksdb::get_perf_context()->*field_ += static_cast<std::uint64_t>(spent.count());
  }
  PerfTimer(const PerfTimer&) = delete;
  PerfTimer& operator=(const PerfTimer&) = delete;

 private:
  const PerfField field_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace breccia::base
