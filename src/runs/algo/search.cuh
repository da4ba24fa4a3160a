#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "exec/group.h"
#include "runs/refs.h"

namespace breccia::runs::algo {

/// What a lane keeps of its query: enough to tell most entries apart without reading it again.
struct Sought {
  std::uint64_t query;
  std::uint64_t head;    // as the run's heads are: sought_in()
  std::uint64_t second;  // the first word of the key's tail, 0 without one
  std::uint64_t bound;
  int side;  // -1: all keys of the run are greater, as they begin otherwise; 1: all are smaller
};

BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline std::uint64_t second_word(const record::KeyColumnsRef& keys, std::uint64_t i) {
  return keys.bytes_at(i) > 8 ? keys.tail[keys.tail_at(i)] : 0;
}

/// Of a query in rows: its bytes are read at once.
BRECCIA_HD inline Sought load_row(const QueriesRef& queries, std::uint64_t query) {
  struct alignas(16) Row {
    std::uint64_t first;
    std::uint64_t second;
  };
  const std::uint64_t bound = queries.bound_at(query);
  if (queries.keys.uniform_bytes == sizeof(std::uint64_t)) {
    return {query, record::swap_bytes(queries.rows[query]), 0, bound, 0};
  }
  const Row row = reinterpret_cast<const Row*>(queries.rows)[query];
  return {query, record::swap_bytes(row.first), record::swap_bytes(row.second), bound, 0};
}

BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline Sought load_sought(const QueriesRef& queries, std::uint64_t query) {
  if (queries.rows != nullptr) return load_row(queries, query);
  return {query, record::first_word(queries.keys, query), second_word(queries.keys, query),
          queries.bound_at(query), 0};
}

/// Word `w` of a query, zero where it has none: the first two are known without reading it again,
/// as it may lie across the bus.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline std::uint64_t word_of(const QueriesRef& queries, const Sought& sought,
                                        std::uint64_t w) {
  if (w < 2) return w == 0 ? sought.head : sought.second;
  return record::padded_word(queries.keys, sought.query, w);
}

/// Compares the first keys.skip bytes of a query with those that all of `keys` have.
/// Shape   keys.count > 0. Returns -1, 0 or 1.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline int side_of(const QueriesRef& queries, const Sought& sought,
                              const record::KeyColumnsRef& keys) {
  for (std::uint64_t at = 0; at < keys.skip; at += 8) {
    const std::uint64_t bytes = keys.skip - at;
    const std::uint64_t unused = bytes < 8 ? 64 - 8 * bytes : 0;
    const std::uint64_t own = word_of(queries, sought, at / 8) >> unused;
    const std::uint64_t shared =
        (at == 0 ? keys.prefix : record::padded_word(keys, 0, at / 8)) >> unused;
    if (own != shared) return own < shared ? -1 : 1;
  }
  return 0;
}

/// `sought`, as load_sought() gives it, for a search of `run`.
/// Shape   run.keys.count > 0.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline Sought sought_in(const RunRef& run, const QueriesRef& queries,
                                   const Sought& sought) {
  const std::uint32_t skip = run.keys.skip;
  if (skip == 0) return sought;
  Sought own = sought;
  own.side = side_of(queries, sought, run.keys);
  const std::uint32_t cut = 8 * (skip % 8);
  own.head = word_of(queries, sought, skip / 8);
  if (cut > 0) own.head = own.head << cut | word_of(queries, sought, skip / 8 + 1) >> (64 - cut);
  return own;
}

/// Compares the keys a[i] and b[j] whose first two words are equal. Where one of them has no more,
/// no word is read: the longer one goes on, if only with zeros.
/// Returns -1, 0 or 1.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline int compare_rest(const record::KeyColumnsRef& a, std::uint64_t i,
                                   const record::KeyColumnsRef& b, std::uint64_t j) {
  const std::uint64_t a_bytes = a.bytes_at(i);
  const std::uint64_t b_bytes = b.bytes_at(j);
  if (a_bytes > 16 && b_bytes > 16) return record::compare_tails(a, i, b, j);
  return a_bytes == b_bytes ? 0 : a_bytes < b_bytes ? -1 : 1;
}

/// True if entry `i` of `run`, which has the head that is sought, comes before every version of the
/// sought key that the query may see. Run order: key ascending, then payload descending.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline bool tie_sorts_before(const RunRef& run, std::uint64_t i,
                                        const QueriesRef& queries, const Sought& sought) {
  const std::uint64_t second = second_word(run.keys, i);
  if (second != sought.second) return second < sought.second;
  const int order = compare_rest(run.keys, i, queries.keys, sought.query);
  return order != 0 ? order < 0 : run.payload[i] >= sought.bound;
}

/// `step` if `condition`, else 0, without a jump.
BRECCIA_HD inline std::uint64_t step_if(bool condition, std::uint64_t step) {
  return step & (std::uint64_t{0} - static_cast<std::uint64_t>(condition));
}

/// tie_sorts_before() of an entry whose head is `head`, any one.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline bool sorts_before(const RunRef& run, std::uint64_t i, std::uint64_t head,
                                    const QueriesRef& queries, const Sought& sought) {
  bool before = head < sought.head;  // which side an entry lies on cannot be predicted: no jump
  if (head == sought.head) before = tie_sorts_before(run, i, queries, sought);
  return before;
}

/// For each lane the first entry i of `run` for which before(lane, i, its head) does not hold.
/// Shape   run.keys.count > 0; it holds for the entries up to some one, and for none behind it.
/// Bound   log2(count / 64) + 7 reads of heads per lane, all lanes in step, and no jump that
///         depends on one unless before() has it.
/// Source  [hrocks] section 6.2 (binary search in sorted tables). Deviation: a fence of every 64th
///         head first, which stays in cache.
BRECCIA_SINGLE_SOURCE
template <class Group, class Before>
BRECCIA_HD auto first_not(const Group& group, const RunRef& run, const Before& before) {
  // In the fence: count how many fences come before the query; the answer lies behind the last.
  auto block = group.per_lane([&](int) { return std::uint64_t{0}; });
  for (std::uint64_t length = fence_count(run.keys.count); length > 1;) {
    const std::uint64_t half = length / 2;
    block = group.per_lane([&](int lane) {
      const std::uint64_t probe = block[lane] + half;
      const bool is_before = before(lane, probe * kFenceStride, run.fence[probe]);
      return block[lane] + step_if(is_before, half);
    });
    length -= half;
  }
  // In the block of 64 heads behind that fence: six halvings, then the last entry by itself.
  const std::uint64_t last = run.keys.count - 1;
  auto at = group.per_lane([&](int lane) { return block[lane] * kFenceStride; });
  const auto advance = [&](std::uint64_t half) {
    at = group.per_lane([&](int lane) {
      const std::uint64_t probe = at[lane] + half - 1;
      const std::uint64_t entry = probe < last ? probe : last;
      const bool is_before = before(lane, entry, run.keys.head[entry]);
      return at[lane] + step_if(is_before && probe == entry, half);
    });
  };
  for (std::uint64_t half = kFenceStride / 2; half > 0; half /= 2) advance(half);
  advance(1);
  return at;
}

/// True if in a stretch of the run all heads are alike, by some looks at the fence: keys then have
/// to be compared in most steps of a search.
BRECCIA_HD inline bool has_long_ties(const RunRef& run) {
  constexpr std::uint64_t kLooks = 8;
  const std::uint64_t pairs = fence_count(run.keys.count) - 1;
  bool has = false;
  for (std::uint64_t look = 0; look < kLooks && look < pairs; ++look) {
    const std::uint64_t at = look * pairs / kLooks;
    has = has || run.fence[at] == run.fence[at + 1];
  }
  return has;
}

/// From at[lane], the first entry with the head that is sought, on to the first one that does not
/// sort before the query.
/// Bound   log2 of the entries with that head, steps as those of first_not(), and as many keys
///         compared; all lanes in step.
BRECCIA_SINGLE_SOURCE
template <class Group, class Soughts, class Places>
BRECCIA_HD auto pass_ties(const Group& group, const RunRef& run, const QueriesRef& queries,
                          const Soughts& sought, const Places& at) {
  const std::uint64_t count = run.keys.count;
  const auto has_head = [&](int lane, std::uint64_t i) {
    return i < count && run.keys.head[i] == sought[lane].head;
  };
  // Some lane has more than `length` entries with its head, from at[lane] on.
  std::uint64_t length = 1;
  while (group.ballot([&](int lane) { return has_head(lane, at[lane] + length); }) != 0)
    length *= 2;
  auto now = group.per_lane([&](int lane) { return at[lane]; });
  while (length > 0) {
    const std::uint64_t half = (length + 1) / 2;
    now = group.per_lane([&](int lane) {
      const std::uint64_t probe = now[lane] + half - 1;
      bool before = has_head(lane, probe);
      if (before) before = tie_sorts_before(run, probe, queries, sought[lane]);
      return now[lane] + step_if(before, half);
    });
    length -= half;
  }
  return now;
}

/// lower_bound() of keys that heads mostly tell apart, but for what lies to a side of the run.
BRECCIA_SINGLE_SOURCE
template <class Group, class Soughts>
BRECCIA_HD auto heads_first(const Group& group, const RunRef& run, const QueriesRef& queries,
                            const Soughts& sought) {
  const auto at = first_not(group, run, [&](int lane, std::uint64_t, std::uint64_t head) {
    return head < sought[lane].head;
  });
  const exec::LaneMask ties = group.ballot([&](int lane) {
    const std::uint64_t i = at[lane];
    return sought[lane].side == 0 && i < run.keys.count && run.keys.head[i] == sought[lane].head &&
           tie_sorts_before(run, i, queries, sought[lane]);
  });
  return ties == 0 ? at : pass_ties(group, run, queries, sought, at);
}

/// Finds, for the query of each lane, the first entry of `run` that does not sort before it.
/// Shape   run.keys.count > 0; sought[lane] of sought_in().
/// Bound   as first_not(), and one more key; pass_ties() where that is not it.
/// Cost    host: the W lookups' cache misses overlap, as no jump hangs on a head; CUDA: one thread
///         a lookup. Where many keys have one head, they are compared on the way instead.
BRECCIA_SINGLE_SOURCE
template <class Group, class Soughts>
BRECCIA_HD auto lower_bound(const Group& group, const RunRef& run, const QueriesRef& queries,
                            const Soughts& sought) {
  auto at = group.per_lane([](int) { return std::uint64_t{0}; });
  if (has_long_ties(run)) {
    at = first_not(group, run, [&](int lane, std::uint64_t i, std::uint64_t head) {
      return sorts_before(run, i, head, queries, sought[lane]);
    });
  } else {
    at = heads_first(group, run, queries, sought);
  }
  return group.per_lane([&](int lane) {
    const int side = sought[lane].side;
    return side == 0 ? at[lane] : side < 0 ? 0 : run.keys.count;
  });
}

/// True if keys[i] is the key sought in the run that has `keys`.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline bool is_key(const record::KeyColumnsRef& keys, std::uint64_t i,
                              const record::KeyColumnsRef& sought_keys, const Sought& sought) {
  return sought.side == 0 && keys.head[i] == sought.head && second_word(keys, i) == sought.second &&
         compare_rest(keys, i, sought_keys, sought.query) == 0;
}

/// Says what `query` found: `payload`, or kNotFound, and the value beside it.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline void store_found(const FoundRef& found, std::uint64_t query,
                                   std::uint64_t payload, std::uint64_t value) {
  if (found.op == nullptr) {
    found.payload[query] = payload;
    if (found.value != nullptr) found.value[query] = value;
    return;
  }
  const bool is_found = payload != kNotFound;
  const std::uint64_t op = payload & kOperationMask;
  found.op[query] = is_found ? static_cast<std::uint8_t>(op) : kNoOp;
  found.value[query] = is_found && op == kPutOperation ? value : payload;
}

/// Looks up W queries in runs, newest first, and stores what each found.
/// Shape   runs[run_count].
/// Bound   stops at the first run after which every lane has found its key.
/// Threads any number of groups; each writes only its own queries' results.
struct Search {
  static constexpr int kBlockThreads = 128;  // it keeps more state a thread than other steps
  const RunRef* runs;
  int run_count;
  QueriesRef queries;
  FoundRef found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t last = queries.keys.count - 1;
    const auto sought = group.per_lane([&](int lane) {
      const std::uint64_t own = first + static_cast<std::uint64_t>(lane);
      return load_sought(queries, own < last ? own : last);
    });
    auto result = group.per_lane([&](int) { return kNotFound; });
    auto value = group.per_lane([&](int) { return std::uint64_t{0}; });
    auto own = sought;
    int cut_for = -1;  // the run that `own` is made for, or one with the same heads
    for (int r = 0; r < run_count; ++r) {
      const RunRef& run = runs[r];
      if (run.keys.count == 0) continue;
      const bool is_cut = cut_for >= 0 && record::has_same_heads(run.keys, runs[cut_for].keys);
      own = group.per_lane([&](int lane) {
        Sought next = is_cut ? own[lane] : sought_in(run, queries, sought[lane]);
        // Lanes that are done go along to the run's begin, where all of them read the same.
        if (result[lane] != kNotFound) next.head = 0;
        return next;
      });
      cut_for = r;
      const auto at = lower_bound(group, run, queries, own);
      // Where a lane found its key just now; elsewhere the end.
      const auto hit = group.per_lane([&](int lane) {
        const std::uint64_t i = at[lane];
        const bool is_hit = result[lane] == kNotFound && i < run.keys.count &&
                            is_key(run.keys, i, queries.keys, own[lane]);
        return is_hit ? i : run.keys.count;
      });
      result = group.per_lane([&](int lane) {
        return hit[lane] < run.keys.count ? run.payload[hit[lane]] : result[lane];
      });
      if (found.value != nullptr) {
        value = group.per_lane([&](int lane) {
          return hit[lane] < run.keys.count ? run.value[hit[lane]] : value[lane];
        });
      }
      // Lanes behind the last query repeat it, so they never keep the others waiting.
      const exec::LaneMask missing =
          group.ballot([&](int lane) { return result[lane] == kNotFound; });
      if (missing == 0) break;
    }
    group.each_lane([&](int lane) {
      const std::uint64_t query = first + static_cast<std::uint64_t>(lane);
      if (query >= queries.keys.count) return;
      store_found(found, query, result[lane], value[lane]);
    });
  }
};

/// Runs whose columns travel as a kernel's arguments (72 bytes each, of the 4 KiB that any driver
/// takes).
inline constexpr std::size_t kInlineRunsMax = 32;

/// A search (Search or SearchWide) whose run table travels with the kernel's arguments: threads
/// read it from the constant cache, and nothing is copied for it.
template <class SearchKind>
struct InlineSearch {
  static constexpr int kBlockThreads = 128;
  RunRef runs[kInlineRunsMax];
  int run_count;
  QueriesRef queries;
  FoundRef found;

  /// Shape   at most kInlineRunsMax runs.
  InlineSearch(std::span<const RunRef> table, const QueriesRef& sought, const FoundRef& out)
      : run_count(static_cast<int>(table.size())), queries(sought), found(out) {
    BRECCIA_ASSERT(table.size() <= kInlineRunsMax);
    std::copy(table.begin(), table.end(), runs);
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    SearchKind{runs, run_count, queries, found}(group, first);
  }
};

/// True if a search reads each query once, in order, as all of it is in a Sought: its columns may
/// lie across a bus.
inline bool reads_queries_once(const record::KeyColumnsRef& keys) {
  return keys.uniform() && keys.uniform_bytes <= 16;
}

}  // namespace breccia::runs::algo
