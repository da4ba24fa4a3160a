#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/statistics.h>

#include <cstdint>
#include <memory>

#include "base/perf.h"
#include "base/result.h"

/// RocksDB's statistics and perf context of the requests that come through the facade. What counts
/// requests is counted here, once for each, wherever its answer lies; what counts files, blocks and
/// compactions comes from the tree (docs/statistics.md).

namespace breccia::facade {

/// `user` as the tree is to be given it: without what this file counts. Null if `user` is.
[[nodiscard]] std::shared_ptr<rocksdb::Statistics> without_requests(
    const std::shared_ptr<rocksdb::Statistics>& user);

/// Records the time of its life, if there are statistics that want times.
class UserTimer {
 public:
  UserTimer(rocksdb::Statistics* user, rocksdb::Histograms histogram)
      : user_(user != nullptr && user->get_stats_level() > rocksdb::StatsLevel::kExceptTimers
                  ? user
                  : nullptr),
        histogram_(histogram) {
    if (user_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~UserTimer() {
    if (user_ == nullptr) return;
    const auto spent = std::chrono::steady_clock::now() - begin_;
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(spent).count();
    user_->reportTimeToHistogram(histogram_, static_cast<std::uint64_t>(micros));
  }
  UserTimer(const UserTimer&) = delete;
  UserTimer& operator=(const UserTimer&) = delete;

 private:
  rocksdb::Statistics* const user_;
  const rocksdb::Histograms histogram_;
  std::chrono::steady_clock::time_point begin_;
};

/// One Get. `user` may be null.
void note_get(rocksdb::Statistics* user, const Status& status, std::uint64_t bytes, bool from_tree);

/// One MultiGet.
struct MultiGetCounts {
  std::uint64_t keys;
  std::uint64_t found;
  std::uint64_t bytes;
  std::uint64_t from_tree;
};
void note_multi_get(rocksdb::Statistics* user, const MultiGetCounts& counts);

/// Sets a field of the perf context that the tree may have added to meanwhile: the request read
/// `bytes`, whoever read them.
inline void set_perf_bytes(base::PerfField field, std::uint64_t before, std::uint64_t bytes) {
  if (base::perf_counts()) rocksdb::get_perf_context()->*field = before + bytes;
}

/// `iterator`, whose calls are counted in `user` (may be null) and in the perf context.
[[nodiscard]] std::unique_ptr<rocksdb::Iterator> counted(
    std::shared_ptr<rocksdb::Statistics> user, std::unique_ptr<rocksdb::Iterator> iterator);

}  // namespace breccia::facade
