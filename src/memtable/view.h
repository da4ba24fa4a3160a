#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/backend.h"
#include "memtable/host_memtable.h"
#include "wal/format.h"
#include "wal/segment_table.h"

namespace rocksdb {
class Snapshot;
}

namespace breccia::memtable {

/// A run of log records in a backend's memory, and what the host keeps of it.
struct MemRun {
  exec::RunPtr run;
  std::uint64_t begin = 0;  // positions of all entries lie in [begin, end)
  std::uint64_t end = 0;

  /// The run's order for the host where it cannot read the run itself: a batch's descriptors, which
  /// lie in the log (its records begin at `records`), or else payloads. Null on the host backend.
  const std::uint32_t* descriptors = nullptr;
  std::uint64_t records = 0;
  std::shared_ptr<const std::vector<std::uint64_t>> payloads;

  /// Log position of entry `i` in run order, by the order that the host has.
  [[nodiscard]] std::uint64_t position_at(std::uint64_t i) const {
    return descriptors != nullptr ? records + std::uint64_t{descriptors[i]} * 8
                                  : wal::position_of((*payloads)[i]);
  }
};
using MemRunPtr = std::shared_ptr<const MemRun>;

/// What readers see between two changes. Immutable but for the active memtable's growth, which
/// position bounds hide. Holding a view keeps everything it can reach in place.
struct View {
  std::shared_ptr<HostMemtable> active;    // newer than every run
  std::vector<MemRunPtr> runs;             // newest first, position ranges disjoint
  std::vector<exec::RunPtr> backend_runs;  // the same runs, as a search takes them
  wal::SegmentTablePtr table;
  std::shared_ptr<const rocksdb::Snapshot> below;  // the state of the database below

  void set_runs(std::vector<MemRunPtr> newest_first) {
    runs = std::move(newest_first);
    backend_runs.clear();
    for (const MemRunPtr& run : runs) backend_runs.push_back(run->run);
  }
};
using ViewPtr = std::shared_ptr<const View>;

/// The newest version of `key` below `bound` in the view's memtable and runs: its payload, or
/// exec::kNotFound. One key, on the calling thread.
/// Cost    memtable: one walk; per run: log2(n / 64) + 7 probes (host run), log2(n) records
/// (device).
[[nodiscard]] std::uint64_t find_one(const View& view, const Slice& key, std::uint64_t bound,
                                     const std::byte** record);

/// Positions [begin, end) whose runs somebody works on.
struct TakenRange {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Neighbouring runs of a view, newest first: runs[first .. first + count).
struct RunRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The runs that should become one now; count 0 if none.
/// Looked at are the newest runs that lie together and are not taken. Due are
///  - all of them, once searches have made `probes` more probes, beyond each query's first run,
///  than
///    their merge costs;
///  - four of one size class with what is smaller between them, so that few runs are left to
///  search;
///  - where more than 20 remain, the four neighbours that are cheapest to merge.
[[nodiscard]] RunRange merge_due(const std::vector<MemRunPtr>& newest_first,
                                 const std::vector<TakenRange>& taken, std::uint64_t probes);

}  // namespace breccia::memtable
