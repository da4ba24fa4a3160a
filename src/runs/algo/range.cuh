#pragma once

#include <cstdint>
#include <span>

#include "runs/algo/runs.cuh"
#include "runs/algo/search.cuh"

/// Range requests over runs: where each begins in every run, then one walk per request that merges
/// the runs from there.

namespace breccia::runs::algo {

/// at[query * run_count + r] = the first entry of run r that a walk of the query may emit, for
/// every query.
/// Cost    one lower_bound per query and run.
struct FindBegins {
  const RunRef* runs;
  int run_count;
  QueriesRef queries;
  std::uint64_t* at;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t last = queries.keys.count - 1;
    const auto sought = group.per_lane([&](int lane) {
      const std::uint64_t own = first + static_cast<std::uint64_t>(lane);
      return load_sought(queries, own < last ? own : last);
    });
    for (int r = 0; r < run_count; ++r) {
      if (runs[r].keys.count == 0) {
        store(group, first, r, group.per_lane([](int) { return std::uint64_t{0}; }));
      } else {
        const auto own =
            group.per_lane([&](int lane) { return sought_in(runs[r], queries, sought[lane]); });
        store(group, first, r, lower_bound(group, runs[r], queries, own));
      }
    }
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group, class Places>
  BRECCIA_HD void store(const Group& group, std::uint64_t first, int r,
                        const Places& places) const {
    group.each_lane([&](int lane) {
      const std::uint64_t query = first + static_cast<std::uint64_t>(lane);
      if (query >= queries.keys.count) return;
      at[query * static_cast<std::uint64_t>(run_count) + static_cast<std::uint64_t>(r)] =
          places[lane];
    });
  }
};

/// Emits, for each query, the newest visible versions of the first keys in its range, in key order.
/// Shape   `at` as FindBegins leaves it; [out_at[q] .. out_at[q + 1]) is query q's room in
///         walked.payload or walked.pair.
/// Bound   per query: the entries of its range up to its limit, all their versions, times the runs.
/// Threads any number of groups; each writes only its own queries' cursors and results.
/// Source  [hrocks] section 6.4. Deviation: the runs are merged here, not by the CPU.
struct WalkRanges {
  const RunRef* runs;
  int run_count;
  RangesRef ranges;
  std::uint64_t* at;
  WalkedRef walked;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, ranges.begin.count, [&](std::uint64_t query) { walk(query); });
  }

  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void walk(std::uint64_t query) const {
    std::uint64_t* const cursor = at + query * static_cast<std::uint64_t>(run_count);
    const std::uint64_t place = ranges.out_at[query];
    const std::uint64_t limit = ranges.out_at[query + 1] - place;
    const std::uint64_t bound = ranges.bound_at(query);
    std::uint64_t filled = 0;
    while (filled < limit) {
      const int newest = first_key(cursor, bound);
      if (newest < 0) break;
      const RunRef& run = runs[newest];
      const std::uint64_t entry = cursor[newest];
      if (record::compare_keys(run.keys, entry, ranges.end, query) >= 0) break;
      if (emit(run, entry, place + filled)) ++filled;
      for (int r = 0; r < run_count; ++r) pass_key(r, cursor, run.keys, entry);
    }
    walked.emitted[query] = static_cast<std::uint32_t>(filled);
    for (; filled < limit; ++filled) clear(place + filled);
  }

  /// Rooms are copied whole, so nothing in them is left as it was.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void clear(std::uint64_t place) const {
    if (walked.pair == nullptr) {
      walked.payload[place] = 0;
    } else {
      walked.pair[2 * place] = walked.pair[2 * place + 1] = 0;
    }
  }

  /// False for what is not to be emitted.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool emit(const RunRef& run, std::uint64_t entry, std::uint64_t place) const {
    const std::uint64_t payload = run.payload[entry];
    if (walked.pair == nullptr) {
      walked.payload[place] = payload;
      return true;
    }
    if ((payload & kOperationMask) != kPutOperation) return false;
    walked.pair[2 * place] = record::swap_bytes(record::first_word(run.keys, entry));
    walked.pair[2 * place + 1] = run.value[entry];
    return true;
  }

  /// The run whose cursor stands at the smallest key, the newest of several; -1 at the end.
  /// Cursors pass versions that the query may not see.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD int first_key(std::uint64_t* cursor, std::uint64_t bound) const {
    int best = -1;
    for (int r = 0; r < run_count; ++r) {
      std::uint64_t i = cursor[r];
      while (i < runs[r].keys.count && runs[r].payload[i] >= bound) ++i;
      cursor[r] = i;
      if (i == runs[r].keys.count) continue;
      if (best < 0 || record::compare_keys(runs[r].keys, i, runs[best].keys, cursor[best]) < 0)
        best = r;
    }
    return best;
  }

  /// Moves run r's cursor behind all versions of keys[entry].
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void pass_key(int r, std::uint64_t* cursor, const record::KeyColumnsRef& keys,
                           std::uint64_t entry) const {
    std::uint64_t i = cursor[r];
    while (i < runs[r].keys.count && record::compare_keys(runs[r].keys, i, keys, entry) == 0) ++i;
    cursor[r] = i;
  }
};

/// The executor's side of Backend::ranges.
/// Cost    a lower_bound per range and run; then one thread walks each range; out is staged, since
///         each thread writes its own stretch of it.
template <class X>
Status ranges(X& x, std::span<const RunRef> runs, const RangesRef& host, const WalkedRef& walked) {
  const std::uint64_t n = host.begin.count;
  const int run_count = static_cast<int>(runs.size());
  BRECCIA_ASSERT(runs.size() <= limits::kRunsPerSearchMax);
  BRECCIA_TAKE(const auto begin, ImportedKeys<X>::make(x, host.begin));
  BRECCIA_TAKE(const auto end, ImportedKeys<X>::make(x, host.end));
  BRECCIA_TAKE(const auto bound, x.import(host.bound, host.bound == nullptr ? 0 : n));
  BRECCIA_TAKE(const auto out_at, x.import(host.out_at, n + 1));
  BRECCIA_TAKE(const auto refs, x.import(runs.data(), runs.size()));
  RangesRef own = host;
  own.begin = begin.ref();
  own.end = end.ref();
  own.bound = host.bound == nullptr ? nullptr : bound.data();
  own.out_at = out_at.data();

  const std::uint64_t room = host.out_at[n];
  BRECCIA_TAKE(const exec::Array<std::uint64_t> cursors,
               make_array<std::uint64_t>(x, n * runs.size()));
  const bool pairs = walked.pair != nullptr;
  const std::uint64_t words = pairs ? 2 * room : room;
  BRECCIA_TAKE(const exec::Array<std::uint64_t> found, make_array<std::uint64_t>(x, words));
  BRECCIA_TAKE(const exec::Array<std::uint32_t> counts, make_array<std::uint32_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(
      n,
      FindBegins{refs.data(), run_count, {own.begin, own.bound, own.bound_all}, cursors.data()}));
  const WalkedRef own_walked{pairs ? nullptr : found.data(), pairs ? found.data() : nullptr,
                             counts.data()};
  BRECCIA_TRY(x.template launch<kWidth>(
      n, WalkRanges{refs.data(), run_count, own, cursors.data(), own_walked}));
  BRECCIA_TRY(x.copy_out(pairs ? walked.pair : walked.payload, found.data(), words));
  BRECCIA_TRY(x.copy_out(walked.emitted, counts.data(), n));
  return x.finish();
}

}  // namespace breccia::runs::algo
