#include "rocks/statistics.h"

#include <fmt/format.h>

#include <chrono>

namespace breccia::rocks {

namespace {

constexpr std::array<const char*, kTickers> ticker_names = {
    "breccia.batches",
    "breccia.requests.put",
    "breccia.requests.delete",
    "breccia.requests.merge",
    "breccia.requests.delete-range",
    "breccia.requests.get",
    "breccia.requests.range",
    "breccia.iterators",
    "breccia.writes.to-memtable",
    "breccia.writes.to-runs",
    "breccia.updates.worked-out",
    "breccia.gets.on-host",
    "breccia.gets.on-backend",
    "breccia.gets.from-memory",
    "breccia.gets.from-tree",
    "breccia.runs.searched",
    "breccia.log.frames",
    "breccia.log.bytes.written",
    "breccia.log.commits",
    "breccia.log.syncs",
    "breccia.runs.merges",
    "breccia.runs.merged-entries",
    "breccia.flush.count",
    "breccia.flush.files",
    "breccia.flush.file-bytes",
    "breccia.flush.log-bytes",
    "breccia.waits",
    "breccia.waits.micros",
    "breccia.waits.refused",
    "breccia.backend.errors",
    "breccia.backend.memory-misses",
};

constexpr std::array<const char*, kTimings> timing_names = {
    "breccia.log.sync.micros",
    "breccia.wait.micros",
    "breccia.runs.merge.micros",
    "breccia.flush.micros",
};

}  // namespace

const char* name_of(Ticker ticker) { return ticker_names[static_cast<std::size_t>(ticker)]; }
const char* name_of(Timing timing) { return timing_names[static_cast<std::size_t>(timing)]; }

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

std::optional<std::uint64_t> Statistics::find(const std::string& name) const {
  for (std::size_t i = 0; i < kTickers; ++i) {
    if (name == ticker_names[i]) return counters_.sum(i);
  }
  return std::nullopt;
}

std::string Statistics::figures_of(Timing timing) const {
  const Distribution& distribution = timings_[static_cast<std::size_t>(timing)];
  const std::lock_guard lock(distribution.mutex);
  const base::Histogram& micros = distribution.micros;
  const auto sum = static_cast<double>(micros.count()) * micros.mean();
  return fmt::format("P50 : {} P95 : {} P99 : {} P100 : {} COUNT : {} SUM : {:.0f}",
                     micros.percentile(50), micros.percentile(95), micros.percentile(99),
                     micros.max(), micros.count(), sum);
}

std::map<std::string, std::string> Statistics::map() const {
  std::map<std::string, std::string> all;
  for (std::size_t i = 0; i < kTickers; ++i)
    all[ticker_names[i]] = std::to_string(counters_.sum(i));
  for (std::size_t i = 0; i < kTimings; ++i) {
    all[timing_names[i]] = figures_of(static_cast<Timing>(i));
  }
  return all;
}

std::string Statistics::text() const {
  std::string text;
  for (std::size_t i = 0; i < kTickers; ++i) {
    text += fmt::format("{} COUNT : {}\n", ticker_names[i], counters_.sum(i));
  }
  for (std::size_t i = 0; i < kTimings; ++i) {
    text += fmt::format("{} {}\n", timing_names[i], figures_of(static_cast<Timing>(i)));
  }
  return text;
}

std::uint64_t Stopwatch::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

std::uint64_t Stopwatch::micros() const { return now() - begin_; }

}  // namespace breccia::rocks
