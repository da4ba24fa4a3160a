#pragma once

#include <cstdint>

#include "runs/algo/run_steps.cuh"
#include "sst/algo/decode.cuh"
#include "sst/algo/entries.cuh"

namespace breccia::sst::algo {

/// Makes sure that each run is in strict order, before it is merged or searched: blocks with right
/// checksums may hold anything.
/// Shape   ends[run_count]: where runs end among the entries, ascending.
struct CheckRuns {
  EntriesRef entries;
  const std::uint64_t* ends;
  std::uint64_t run_count;
  std::uint64_t count;
  std::uint32_t* faults;

  BRECCIA_HD bool begins_run(std::uint64_t i) const {
    for (std::uint64_t run = 0; run < run_count; ++run) {
      if (ends[run] == i) return true;
    }
    return false;
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      if (i == 0) return;
      const runs::algo::VersionLess less{entries.keys, entries.tag};
      const auto own = static_cast<std::uint32_t>(i);
      if (less(own - 1, own) || begins_run(i)) return;
      note_fault(group, faults, kFaultOrder);
    });
  }
};

}  // namespace breccia::sst::algo
