#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/database.h"

namespace breccia::bench {

/// Finds, by short runs of a suite's own requests, how RocksDB is best used for them.
///
/// What its opening decides is chosen once, on databases of its own: the size of WriteBatches, then
/// how writers share the log, then whether a merge is one or a read, an addition and a put. How
/// lookups are made is chosen for each step that reads in batches, on the database that it will
/// read. The first candidate is how the benchmark uses RocksDB unless told otherwise.
/// Threads one owner.
class RocksdbProbe {
 public:
  RocksdbProbe(const EngineConfig& engine, const std::vector<Step>& steps)
      : engine_(engine), steps_(steps) {}

  /// How writes go best.
  /// Bound   a third of a second for each of eight candidates, and the databases' opening.
  /// Errors  those of the engine.
  Result<RocksdbTuning> choose_writes(const Place& place);
  /// How keys are loaded best, other writes as in `writes`.
  /// Bound   a third of a second for each of three candidates, and their flushes.
  Result<RocksdbTuning> choose_loading(const RocksdbTuning& writes, const Place& place);
  /// How the lookups of `step` go best, writes as in `writes`; found once, then remembered. What a
  /// cold state had dropped is cached afterwards.
  /// Bound   a third of a second for each of five candidates.
  Result<RocksdbTuning> choose_reads(Engine* engine, const Step& step, const RocksdbTuning& writes);
  /// Chooses how the transactions of each step of them go best, on a database in `place` that the
  /// suite's first writes have filled; other calls as in `writes`.
  /// Bound   those writes, and a third of a second for each of three candidates a step.
  Status choose_transactions(const RocksdbTuning& writes, const Place& place);
  /// What was chosen for `step`, else `writes`.
  [[nodiscard]] RocksdbTuning chosen(const Step& step, const RocksdbTuning& writes) const;
  /// Whether choose_reads will run anything.
  [[nodiscard]] bool knows(const Step& step) const;

 private:
  Result<RocksdbTuning> best_of(const std::vector<RocksdbTuning>& candidates, const Step& step,
                                const Place& place);
  Result<RocksdbTuning> best_of(const std::vector<RocksdbTuning>& candidates, const Step& step,
                                Engine* engine);

  const EngineConfig engine_;
  const std::vector<Step>& steps_;
  std::map<std::string, RocksdbTuning> chosen_;
};

}  // namespace breccia::bench
