#include "bench/rocksdb_probe.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "bench/places.h"

namespace breccia::bench {

namespace {

constexpr double kProbeSeconds = 0.33;
// A thread runs whole batches, and RocksDB takes half a minute for a million requests of each.
constexpr std::uint32_t kProbeBatch = 64 << 10;
constexpr std::array<std::uint32_t, 3> kWriteBatches = {100, 1000, 65'536};

// Requests per second of a step that runs for a moment.
Result<double> rate_of(Engine* engine, const Step& step) {
  DriverConfig config = step.driver;
  config.duration_s = kProbeSeconds;
  config.batch_size = std::min(config.batch_size, kProbeBatch);
  config.prebuilt = false;
  config.ready = false;
  config.target_per_s = 0;
  DriverOutcome outcome;
  drive(engine, config, step.streams, /*live=*/{}, &outcome);
  BRECCIA_TRY(outcome.status);
  if (step.loads) BRECCIA_TRY(flush_timed(engine, config, &outcome));
  return static_cast<double>(outcome.requests) / outcome.seconds;
}

bool is_grouped(const Step& step) {
  return step.driver.batch_size > 1 && !step.driver.transactions;
}

// The first step that writes in groups or one by one, as a user of the suite would load it.
bool is_write(const Step& step) {
  return !step.flush && !step.compact && !step.reads && !step.merges && !step.driver.transactions;
}

const Step* find(const std::vector<Step>& steps, bool (*is_it)(const Step&)) {
  const auto found = std::find_if(steps.begin(), steps.end(), is_it);
  return found == steps.end() ? nullptr : &*found;
}

}  // namespace

Result<RocksdbTuning> RocksdbProbe::best_of(const std::vector<RocksdbTuning>& candidates,
                                            const Step& step, const Place& place) {
  RocksdbTuning best;
  double best_rate = 0;
  for (const RocksdbTuning& candidate : candidates) {
    EngineConfig config = engine_;
    config.rocksdb = candidate;
    BRECCIA_TRY(make_fresh(place));
    {
      Database database(config, place);
      BRECCIA_TRY(database.open());
      BRECCIA_TAKE(const double rate, rate_of(database.engine(), step));
      if (rate > best_rate) best = candidate;
      best_rate = std::max(rate, best_rate);
    }
    BRECCIA_TRY(remove_marked(place));
  }
  return best;
}

Result<RocksdbTuning> RocksdbProbe::best_of(const std::vector<RocksdbTuning>& candidates,
                                            const Step& step, Engine* engine) {
  BRECCIA_ASSERT(!candidates.empty());
  RocksdbTuning best = candidates.front();
  double best_rate = 0;
  for (const RocksdbTuning& candidate : candidates) {
    engine->retune(candidate);
    BRECCIA_TAKE(const double rate, rate_of(engine, step));
    if (rate > best_rate) best = candidate;
    best_rate = std::max(rate, best_rate);
  }
  return best;
}

Result<RocksdbTuning> RocksdbProbe::choose_writes(const Place& place) {
  RocksdbTuning best = engine_.rocksdb;
  const Step* const writes = find(steps_, is_write);
  if (writes != nullptr) {
    std::vector<RocksdbTuning> candidates;
    if (is_grouped(*writes)) {
      // As one WriteBatch, where that is what the probe runs.
      if (writes->driver.batch_size <= kProbeBatch) candidates.push_back(best);
      for (const std::uint32_t size : kWriteBatches) {
        if (size >= writes->driver.batch_size) continue;
        candidates.push_back(best);
        candidates.back().write_batch = size;
      }
      BRECCIA_TAKE(best, best_of(candidates, *writes, place));
      candidates.clear();
    }
    for (const Writers writers : {Writers::kPipelined, Writers::kUnordered, Writers::kOneQueue}) {
      // Its transactions do not go with batches that are seen in parts.
      if (writers == Writers::kUnordered && engine_.transactions) continue;
      candidates.push_back(best);
      candidates.back().writers = writers;
    }
    BRECCIA_TAKE(best, best_of(candidates, *writes, place));
  }
  const Step* const merges = find(steps_, [](const Step& step) { return step.merges; });
  if (merges == nullptr) return best;
  std::vector<RocksdbTuning> candidates = {best, best};
  candidates.back().merge_by_reading = true;
  return best_of(candidates, *merges, place);
}

Result<RocksdbTuning> RocksdbProbe::choose_loading(const RocksdbTuning& writes,
                                                   const Place& place) {
  const Step* const loads = find(steps_, [](const Step& step) { return step.loads; });
  if (loads == nullptr) return writes;
  std::vector<RocksdbTuning> candidates(3, writes);
  candidates[1].loading = Loading::kVector;
  candidates[2].loading = Loading::kFiles;
  return best_of(candidates, *loads, place);
}

bool RocksdbProbe::knows(const Step& step) const {
  return !is_grouped(step) || step.scans || chosen_.contains(step.name);
}

Result<RocksdbTuning> RocksdbProbe::choose_reads(Engine* engine, const Step& step,
                                                 const RocksdbTuning& writes) {
  if (knows(step)) return chosen(step, writes);
  std::vector<RocksdbTuning> candidates(5, writes);
  candidates[1].sorted = true;
  candidates[2].sorted = candidates[3].sorted = true;
  candidates[2].multi_get = candidates[3].multi_get = 4096;
  candidates[3].async_io = true;
  candidates[4].multi_get = 32;
  BRECCIA_TAKE(const RocksdbTuning best, best_of(candidates, step, engine));
  chosen_[step.name] = best;
  return best;
}

Status RocksdbProbe::choose_transactions(const RocksdbTuning& writes, const Place& place) {
  const auto transacts = [](const Step& step) { return step.driver.transactions; };
  if (find(steps_, transacts) == nullptr) return Status();
  std::vector<RocksdbTuning> candidates(3, writes);
  candidates[1].transacting = candidates[2].transacting = Transacting::kSnapshot;
  candidates[2].sorted = true;
  EngineConfig config = engine_;
  config.rocksdb = writes;
  BRECCIA_TRY(make_fresh(place));
  {
    Database database(config, place);
    BRECCIA_TRY(database.open());
    if (const Step* const load = find(steps_, is_write); load != nullptr) {
      DriverOutcome outcome;
      drive(database.engine(), load->driver, load->streams, /*live=*/{}, &outcome);
      BRECCIA_TRY(outcome.status);
    }
    for (const Step& step : steps_) {
      if (!transacts(step) || chosen_.contains(step.name)) continue;
      BRECCIA_TAKE(chosen_[step.name], best_of(candidates, step, database.engine()));
    }
  }
  return remove_marked(place);
}

RocksdbTuning RocksdbProbe::chosen(const Step& step, const RocksdbTuning& writes) const {
  const auto found = chosen_.find(step.name);
  return found == chosen_.end() ? writes : found->second;
}

}  // namespace breccia::bench
