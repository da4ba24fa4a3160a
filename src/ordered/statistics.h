#pragma once

#include <rocksdb/statistics.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/counters.h"
#include "base/histogram.h"

/// What the engine counts. figures.cc names it.

namespace breccia::ordered {

enum class Ticker : std::uint32_t {
  kBatches,
  kPuts,
  kDeletes,
  kMerges,
  kRangeDeletes,
  kGets,
  kRanges,
  kIterators,
  kWritesToMemtable,
  kWritesToRuns,
  kUpdatesWorkedOut,
  kGetsOnHost,
  kGetsOnBackend,
  kGetsFromMemory,
  kGetsFromTree,
  kRunsSearched,
  kFrames,
  kLogBytes,
  kCommits,
  kSyncs,
  kRunMerges,
  kRunMergeEntries,
  kOrdersRead,
  kIndexesBuilt,
  kFlushes,
  kFlushFiles,
  kFlushFileBytes,
  kFlushLogBytes,
  kWaits,
  kWaitMicros,
  kRefused,
  kBackendErrors,
  kMemoryMisses,
  kTooManyRuns,
  kRangesByIterator,
  kStagedBatches,
  kSmallBuilds,
  kChunks,
  kEnd,
};
inline constexpr std::size_t kTickers = static_cast<std::size_t>(Ticker::kEnd);

/// Distributions of what happens rarely enough for a lock.
enum class Timing : std::uint32_t { kSyncMicros, kWaitMicros, kRunMergeMicros, kFlushMicros, kEnd };
inline constexpr std::size_t kTimings = static_cast<std::size_t>(Timing::kEnd);

/// Threads any.
class Statistics {
 public:
  /// `user` gets what RocksDB counts of the same events; may be null.
  explicit Statistics(std::shared_ptr<rocksdb::Statistics> user) : user_(std::move(user)) {}

  void add(Ticker ticker, std::uint64_t more) {
    counters_.add(static_cast<std::size_t>(ticker), more);
  }
  void record(Timing timing, std::uint64_t micros);

  // Events with counterparts in RocksDB.
  void note_sync(std::uint64_t micros);
  void note_wait(std::uint64_t micros);
  void note_flush(std::uint64_t micros, std::uint64_t files, std::uint64_t file_bytes,
                  std::uint64_t log_bytes);

  [[nodiscard]] std::uint64_t value(Ticker ticker) const {
    return counters_.sum(static_cast<std::size_t>(ticker));
  }
  /// Percentiles, count and sum.
  [[nodiscard]] std::string text(Timing timing) const;

 private:
  struct Distribution {
    mutable std::mutex mutex;
    base::Histogram micros;
  };

  const std::shared_ptr<rocksdb::Statistics> user_;
  base::Counters<kTickers> counters_;
  std::array<Distribution, kTimings> timings_;
};

/// Begins the lines of all figures in RocksDB's file of messages (LOG), where a store writes them
/// when it is closed.
inline constexpr char kStatisticsMark[] = "** Breccia statistics **";

}  // namespace breccia::ordered
