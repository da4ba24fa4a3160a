#pragma once

#include <cstdint>

#include "runs/algo/search.cuh"

/// Searches with all lanes of a group on one query. What a small batch waits for are its reads that
/// depend on one another, and, beyond some thousand queries, the lines that they touch: in a fence,
/// which a device's cache holds, some steps; then all heads of a block at once; then all that may
/// be the entry.

namespace breccia::runs::algo {

/// The first i in [low, end) for which is_before(i) does not hold; `end`: it does for all.
/// Shape   it holds for those up to some one, and for none behind it.
/// Bound   log(end - low) / log(W + 1) reads that depend on one another: 5 of 300,000 words by 16
///         lanes, where halves make 19.
BRECCIA_SINGLE_SOURCE
template <class Group, class IsBefore>
BRECCIA_HD std::uint64_t first_not_before(const Group& group, std::uint64_t low, std::uint64_t end,
                                          const IsBefore& is_before) {
  constexpr std::uint64_t kLanes = Group::kWidth;
  for (std::uint64_t length = end - low; length > 0;) {
    const std::uint64_t step = (length + kLanes) / (kLanes + 1);
    // Lane l looks at the last one of part l; those that come before form a prefix.
    const exec::LaneMask before = group.ballot([&](int lane) {
      const std::uint64_t pivot = (static_cast<std::uint64_t>(lane) + 1) * step - 1;
      return pivot < length && is_before(low + pivot);
    });
    const std::uint64_t parts = static_cast<std::uint64_t>(exec::count_set(before));
    const std::uint64_t skipped = parts * step;
    low += skipped;
    // The next part's last one does not come before, unless that part has no pivot: it is the last
    // one, or shorter than a step.
    const std::uint64_t rest = length - skipped;
    length = parts == kLanes || rest < step ? rest : step - 1;
  }
  return low;
}

/// The first entry of `run` whose head is not below `head`.
/// Bound   first_not_before() in the fence, and one read of 64 heads.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t first_head_wide(const Group& group, const RunRef& run,
                                         std::uint64_t head) {
  constexpr int kPerLane = (static_cast<int>(kFenceStride) + Group::kWidth - 1) / Group::kWidth;
  const std::uint64_t fences = first_not_before(
      group, 0, fence_count(run.keys.count), [&](std::uint64_t i) { return run.fence[i] < head; });
  if (fences == 0) return 0;
  const std::uint64_t begin = (fences - 1) * kFenceStride;
  const auto number = [&](int j, int lane) {
    return static_cast<std::uint64_t>(j * Group::kWidth + lane);
  };
  // All of a lane's heads are read before any is looked at.
  const auto below = group.per_lane([&](int lane) {
    std::uint64_t heads[kPerLane];
    for (int j = 0; j < kPerLane; ++j) {
      const bool is_there =
          number(j, lane) < kFenceStride && begin + number(j, lane) < run.keys.count;
      heads[j] = is_there ? run.keys.head[begin + number(j, lane)] : ~std::uint64_t{0};
    }
    std::uint64_t bits = 0;  // of the greatest head none is below
    for (int j = 0; j < kPerLane; ++j) bits |= std::uint64_t{heads[j] < head} << j;
    return bits;
  });
  std::uint64_t at = begin;
  for (int j = 0; j < kPerLane; ++j) {
    at += static_cast<std::uint64_t>(
        exec::count_set(group.ballot([&](int lane) { return (below[lane] >> j & 1U) != 0; })));
  }
  return at;
}

/// What a run has of a query.
struct WideHit {
  bool is_there = false;
  std::uint64_t payload = 0;
  std::uint64_t value = 0;
};

/// Looks for a query in W entries from `at` on, each lane at one.
/// Shape   at: not behind the first entry that does not sort before; returns how many of them do.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t look_wide(const Group& group, const RunRef& run, const QueriesRef& queries,
                                   const Sought& sought, std::uint64_t at, bool with_value,
                                   WideHit* hit) {
  struct Seen {
    bool is_before = false;
    bool is_key = false;
    std::uint64_t payload = 0;
    std::uint64_t value = 0;
  };
  const auto seen = group.per_lane([&](int lane) {
    Seen one;
    const std::uint64_t i = at + static_cast<std::uint64_t>(lane);
    if (i >= run.keys.count) return one;
    // Read together, whatever comes of it.
    const std::uint64_t head = run.keys.head[i];
    const std::uint64_t second = second_word(run.keys, i);
    one.payload = run.payload[i];
    if (with_value) one.value = run.value[i];
    if (head != sought.head) {
      one.is_before = head < sought.head;
    } else if (second != sought.second) {
      one.is_before = second < sought.second;
    } else {
      const int order = compare_rest(run.keys, i, queries.keys, sought.query);
      one.is_before = order < 0 || (order == 0 && one.payload >= sought.bound);
      one.is_key = order == 0 && !one.is_before;
    }
    return one;
  });
  const int before = exec::count_set(group.ballot([&](int lane) { return seen[lane].is_before; }));
  if (before == Group::kWidth) return Group::kWidth;
  hit->is_there = (group.ballot([&](int lane) { return seen[lane].is_key; }) >> before & 1U) != 0;
  if (hit->is_there) {
    hit->payload = group.from(before, [&](int lane) { return seen[lane].payload; });
    if (with_value) hit->value = group.from(before, [&](int lane) { return seen[lane].value; });
  }
  return static_cast<std::uint64_t>(before);
}

/// What `run` has of a query.
/// Shape   run.keys.count > 0; `sought` of sought_in(), side 0.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD WideHit find_wide(const Group& group, const RunRef& run, const QueriesRef& queries,
                             const Sought& sought, bool with_value) {
  WideHit hit;
  std::uint64_t at = first_head_wide(group, run, sought.head);
  const std::uint64_t before = look_wide(group, run, queries, sought, at, with_value, &hit);
  if (before < Group::kWidth) return hit;
  // Many keys, or versions of one, begin as it does.
  at = first_not_before(group, at + before, run.keys.count, [&](std::uint64_t i) {
    return sorts_before(run, i, run.keys.head[i], queries, sought);
  });
  (void)look_wide(group, run, queries, sought, at, with_value, &hit);
  return hit;
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
    WideHit hit;
    for (int r = 0; r < run_count && !hit.is_there; ++r) {
      const RunRef& run = runs[r];
      if (run.keys.count == 0) continue;
      if (cut_for < 0 || !record::has_same_heads(run.keys, runs[cut_for].keys)) {
        own = sought_in(run, queries, sought);
      }
      cut_for = r;
      if (own.side != 0) continue;
      hit = find_wide(group, run, queries, own, found.value != nullptr);
    }
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      store_found(found, query, hit.is_there ? hit.payload : kNotFound, hit.value);
    });
  }
};

}  // namespace breccia::runs::algo
