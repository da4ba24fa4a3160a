#include "ordered/statistics.h"

#include <fmt/format.h>

namespace breccia::ordered {

void Statistics::record(Timing timing, std::uint64_t micros) {
  Distribution& distribution = timings_[static_cast<std::size_t>(timing)];
  const std::lock_guard lock(distribution.mutex);
  distribution.micros.record(micros);
}

void Statistics::note_sync(std::uint64_t micros) {
  add(Ticker::kSyncs, 1);
  record(Timing::kSyncMicros, micros);
  if (user_ == nullptr) return;
  user_->recordTick(rocksdb::WAL_FILE_SYNCED, 1);
  user_->reportTimeToHistogram(rocksdb::WAL_FILE_SYNC_MICROS, micros);
}

void Statistics::note_wait(std::uint64_t micros) {
  add(Ticker::kWaits, 1);
  add(Ticker::kWaitMicros, micros);
  record(Timing::kWaitMicros, micros);
  if (user_ == nullptr) return;
  user_->recordTick(rocksdb::STALL_MICROS, micros);
  user_->recordInHistogram(rocksdb::WRITE_STALL, micros);
}

void Statistics::note_flush(std::uint64_t micros, std::uint64_t files, std::uint64_t file_bytes,
                            std::uint64_t log_bytes) {
  add(Ticker::kFlushes, 1);
  add(Ticker::kFlushFiles, files);
  add(Ticker::kFlushFileBytes, file_bytes);
  add(Ticker::kFlushLogBytes, log_bytes);
  record(Timing::kFlushMicros, micros);
  if (user_ == nullptr) return;
  user_->recordTick(rocksdb::FLUSH_WRITE_BYTES, file_bytes);
  user_->reportTimeToHistogram(rocksdb::FLUSH_TIME, micros);
}

std::string Statistics::text(Timing timing) const {
  const Distribution& distribution = timings_[static_cast<std::size_t>(timing)];
  const std::lock_guard lock(distribution.mutex);
  const base::Histogram& micros = distribution.micros;
  const auto sum = static_cast<double>(micros.count()) * micros.mean();
  return fmt::format("P50 : {} P95 : {} P99 : {} P100 : {} COUNT : {} SUM : {:.0f}",
                     micros.percentile(50), micros.percentile(95), micros.percentile(99),
                     micros.max(), micros.count(), sum);
}

}  // namespace breccia::ordered
