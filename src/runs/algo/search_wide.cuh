#pragma once

#include <cstdint>

#include "runs/algo/search.cuh"

namespace breccia::runs::algo {

/// Finds the first entry of `run` that does not sort before the query, with all lanes on one query.
/// Shape   run.keys.count > 0; `sought` of sought_in(). A step's W pivots cut the range into W + 1
///         parts.
/// Bound   log(count) / log(W + 1) dependent reads: 5 for 30 M entries and 32 lanes, where a search
///         by halves makes 25. What a small batch waits for is exactly these.
/// Cost    W times the reads of lower_bound(): for batches that leave the device mostly idle.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t lower_bound_wide(const Group& group, const RunRef& run,
                                          const QueriesRef& queries, const Sought& sought) {
  constexpr std::uint64_t kLanes = Group::kWidth;
  std::uint64_t low = 0;
  std::uint64_t length = run.keys.count;
  while (length > 0) {
    const std::uint64_t step = (length + kLanes) / (kLanes + 1);
    // Lane l looks at the last entry of part l; entries that sort before form a prefix.
    const exec::LaneMask before = group.ballot([&](int lane) {
      const std::uint64_t pivot = (static_cast<std::uint64_t>(lane) + 1) * step - 1;
      const std::uint64_t entry = low + pivot;
      return pivot < length && sorts_before(run, entry, run.keys.head[entry], queries, sought);
    });
    const std::uint64_t parts = static_cast<std::uint64_t>(exec::count_set(before));
    const std::uint64_t skipped = parts * step;
    low += skipped;
    // The next part's last entry does not sort before, unless that part has no pivot: it is the
    // last one, or shorter than a step.
    const std::uint64_t rest = length - skipped;
    length = parts == kLanes || rest < step ? rest : step - 1;
  }
  return low;
}

/// As Search, for few queries: group g looks up query g. Launch over count * W items.
struct SearchWide {
  const RunRef* runs;
  int run_count;
  QueriesRef queries;
  FoundRef found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t query = first / Group::kWidth;
    const Sought sought = load_sought(queries, query);
    Sought own = sought;
    int cut_for = -1;  // the run that `own` is made for, or one with the same heads
    std::uint64_t result = kNotFound;
    std::uint64_t value = 0;
    for (int r = 0; r < run_count && result == kNotFound; ++r) {
      const RunRef& run = runs[r];
      if (run.keys.count == 0) continue;
      if (cut_for < 0 || !record::has_same_heads(run.keys, runs[cut_for].keys)) {
        own = sought_in(run, queries, sought);
      }
      cut_for = r;
      if (own.side != 0) continue;
      const std::uint64_t i = lower_bound_wide(group, run, queries, own);
      if (i < run.keys.count && is_key(run.keys, i, queries.keys, own)) {
        result = run.payload[i];
        if (found.value != nullptr) value = run.value[i];
      }
    }
    group.each_lane([&](int lane) {
      if (lane == 0) store_found(found, query, result, value);
    });
  }
};

}  // namespace breccia::runs::algo
