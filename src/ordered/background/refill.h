#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ordered/background/clean_runs.h"
#include "ordered/background/merger.h"

namespace breccia::ordered {

/// Fills the clean runs of a store that was opened again from what its log still has, newest
/// segments first, each in one step.
///
/// Threads one, the flusher's.
class Refill {
 public:
  Refill(const StoreParts& parts, Publisher* publisher, Merger* merger);

  [[nodiscard]] bool is_pending() const { return frontier_ > 0; }
  /// Takes up the next segment. When `budget` is spent, or the log has no more, or anything does
  /// not fit or fails, that was the last.
  void step(const CleanBudget& budget);
  /// Ends it: the log need not keep anything for it any more.
  void end();

 private:
  using Runs = std::map<FamilyId, MemRunPtr>;
  [[nodiscard]] bool wants(const FamilyView& family) const;
  [[nodiscard]] std::uint64_t floor(const View& view, const CleanBudget& budget) const;
  [[nodiscard]] Result<wal::SegmentPtr> segment_below(std::uint64_t position);
  Status step_down(const CleanBudget& budget, bool* more);
  Result<Runs> runs_of(const std::vector<wal::RecoveredFrame>& frames, std::uint64_t from);
  void add(const Runs& runs, std::uint64_t from, View* next) const;

  const StoreParts parts_;
  Publisher* publisher_;
  Merger* merger_;
  std::uint64_t frontier_ = 0;  // what the log has from here on was taken up; 0: it has ended
};

}  // namespace breccia::ordered
