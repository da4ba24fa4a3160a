#pragma once

#include "batch/requests.h"
#include "ordered/state.h"
#include "ordered/statistics.h"

namespace breccia::ordered {

/// Answers a batch's range requests from a view: the memtable's runs are walked on the backend, the
/// tree's part is merged in by CPU threads, which read it in its files where the backend that has
/// their keys said where. Results are records in the log, which the requests then hold, or made in
/// their arenas; or, where keys and values have 8 bytes, pairs.
/// Threads any number; holds no state of its own.
/// Source  [hrocks] section 6.4. Deviation: no values are gathered.
class RangeReader {
 public:
  RangeReader(Backends* backends, Statistics* statistics)
      : backends_(backends), statistics_(statistics) {}

  /// All ranges of a batch that was prepared, and whose families are in the view. A range sees
  /// entries below base + its family's place + after if `own_writes`, else below pin.visible.
  /// Fewer than `device_min` ranges of a family are answered by the calling thread's iterators, or
  /// by files whose keys the host has.
  /// Errors  of single ranges, in their results.
  void read(const Pin& pin, bool own_writes, std::uint64_t base, std::uint64_t device_min,
            batch::Requests* requests) const;

 private:
  struct Job;
  struct Worker;
  void read_family(const Job& job, std::uint64_t device_min) const;
  [[nodiscard]] std::shared_ptr<runs::Backend> walker_of(const FamilyView& family) const;
  [[nodiscard]] static bool fits_pairs(const FamilyView& family);
  /// Ranges [first, last) of the job with the backend's help; false if that cannot be done.
  bool read_walked(const Job& job, std::uint64_t first, std::uint64_t last) const;
  /// The same where memory has no runs.
  bool read_tree(const Job& job, std::uint64_t first, std::uint64_t last) const;
  void finish_walk(const Job& job, std::uint64_t i, const std::uint64_t* found, std::uint32_t count,
                   Worker* worker) const;
  void read_tree_alone(const Job& job, std::uint64_t i, Worker* worker) const;
  void read_by_iterators(const Job& job, std::uint64_t first, std::uint64_t last) const;
  void read_by_iterator(const Job& job, std::uint64_t i, batch::ResultArena* arena) const;

  Backends* backends_;
  Statistics* statistics_;
};

}  // namespace breccia::ordered
