#pragma once

#include <cstdint>

#include "exec/columns.h"
#include "exec/group.h"

namespace breccia::exec::algo {

/// True if entry `i` of `run` comes before every version of the query's key that the query may see.
/// Run order: key ascending, then payload descending.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline bool sorts_before(const RunRef& run, std::uint64_t i, const QueriesRef& queries,
                                    std::uint64_t query, std::uint64_t head, std::uint64_t bound) {
  const std::uint64_t entry = run.keys.head[i];
  if (entry != head) return entry < head;
  const int order = compare_tails(run.keys, i, queries.keys, query);
  return order != 0 ? order < 0 : run.payload[i] >= bound;
}

/// Finds, for the query of each lane, the first entry of `run` that does not sort before it.
/// Shape   lane l searches query first + l; lanes behind the last query repeat it.
/// Bound   log2(count / 64) + 6 reads of heads per lane, all lanes in step; more words only where
///         heads are equal.
/// Cost    host: the W lookups' cache misses overlap; CUDA: one thread a lookup.
/// Source  [hrocks] section 6.2 (binary search in sorted tables). Deviation: a fence of every 64th
///         head first, which stays in cache.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD auto lower_bound(const Group& group, const RunRef& run, const QueriesRef& queries,
                            std::uint64_t first) {
  const std::uint64_t last = queries.keys.count - 1;
  const auto query = group.per_lane([&](int lane) {
    const std::uint64_t own = first + static_cast<std::uint64_t>(lane);
    return own < last ? own : last;
  });
  const auto head = group.per_lane([&](int lane) { return queries.keys.head[query[lane]]; });
  // In the fence: count how many fences sort before the query; the answer lies behind the last.
  auto block = group.per_lane([&](int) { return std::uint64_t{0}; });
  for (std::uint64_t length = fence_count(run.keys.count); length > 1;) {
    const std::uint64_t half = length / 2;
    block = group.per_lane([&](int lane) {
      const std::uint64_t probe = block[lane] + half;
      const std::uint64_t fence = run.fence[probe];
      const bool before =
          fence != head[lane]
              ? fence < head[lane]
              : sorts_before(run, probe * kFenceStride, queries, query[lane], head[lane],
                             queries.bound_at(query[lane]));
      return before ? probe : block[lane];
    });
    length -= half;
  }
  // In the block of 64 heads behind that fence: six halvings, then the last entry by itself.
  auto at = group.per_lane([&](int lane) { return block[lane] * kFenceStride; });
  for (std::uint64_t half = kFenceStride / 2; half > 0; half /= 2) {
    at = group.per_lane([&](int lane) {
      const std::uint64_t probe = at[lane] + half - 1;
      const bool before = probe < run.keys.count &&
                          sorts_before(run, probe, queries, query[lane], head[lane],
                                       queries.bound_at(query[lane]));
      return before ? at[lane] + half : at[lane];
    });
  }
  return group.per_lane([&](int lane) {
    const std::uint64_t probe = at[lane];
    const bool before = probe < run.keys.count &&
                        sorts_before(run, probe, queries, query[lane], head[lane],
                                     queries.bound_at(query[lane]));
    return before ? probe + 1 : probe;
  });
}

/// Looks up W queries in runs, newest first, and stores what each found.
/// Shape   runs[run_count]; found[queries.keys.count]: a payload or kNotFound.
/// Bound   stops at the first run after which every lane has found its key.
/// Threads any number of groups; each writes only its own queries' results.
struct Search {
  const RunRef* runs;
  int run_count;
  QueriesRef queries;
  std::uint64_t* found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    auto result = group.per_lane([&](int) { return kNotFound; });
    for (int r = 0; r < run_count; ++r) {
      const RunRef& run = runs[r];
      if (run.keys.count == 0) continue;
      const auto at = lower_bound(group, run, queries, first);
      result = group.per_lane([&](int lane) {
        const std::uint64_t query = first + static_cast<std::uint64_t>(lane);
        if (result[lane] != kNotFound || query >= queries.keys.count) return result[lane];
        const std::uint64_t i = at[lane];
        const bool hit = i < run.keys.count && compare_keys(run.keys, i, queries.keys, query) == 0;
        return hit ? run.payload[i] : kNotFound;
      });
      const LaneMask missing = group.ballot([&](int lane) {
        return result[lane] == kNotFound &&
               first + static_cast<std::uint64_t>(lane) < queries.keys.count;
      });
      if (missing == 0) break;
    }
    group.each_lane([&](int lane) {
      const std::uint64_t query = first + static_cast<std::uint64_t>(lane);
      if (query < queries.keys.count) found[query] = result[lane];
    });
  }
};

}  // namespace breccia::exec::algo
