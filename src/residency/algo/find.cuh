#pragma once

#include <cstdint>

#include "base/prefetch.h"
#include "exec/group.h"
#include "residency/place.h"
#include "runs/algo/search.cuh"

/// Lookups in the keys of files, level by level, newest first:
///
///  1. which part of the level may have the key: the first whose last key is not below it;
///  2. in that part, a run whose payloads are places: by fences, then by heads, then by whole keys
///     where heads are the same. Its first entry of the key is the newest.
///
/// All lanes go together, each in a part of its own. Ranges begin in each level where a lookup of
/// their first key would end.

namespace breccia::residency::algo {

/// Levels in an executor's memory, not owned.
/// Shape   run[parts]: without keys where only RocksDB knows them; level_end[levels]: how many
///         parts the levels up to this one have; first and last of each part.
struct LevelsRef {
  const runs::RunRef* run = nullptr;
  const std::uint64_t* level_end = nullptr;
  std::uint64_t levels = 0;
  record::KeyColumnsRef first;
  record::KeyColumnsRef last;
};

/// The first of the parts [begin, end) whose last key is not below the one that is sought; `end`:
/// none.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline std::uint64_t part_by_keys(const LevelsRef& levels,
                                             const record::KeyColumnsRef& keys, std::uint64_t query,
                                             std::uint64_t begin, std::uint64_t end) {
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const bool is_below = record::compare_keys(levels.last, middle, keys, query) < 0;
    begin = is_below ? middle + 1 : begin;
    end = is_below ? end : middle;
  }
  return begin;
}

/// The same for each lane that is to look: by heads, all lanes in step and without a jump, then by
/// whole keys where heads are the same.
/// Shape   begin < end
BRECCIA_SINGLE_SOURCE
template <class Group, class Soughts, class Looks>
BRECCIA_HD auto part_of(const Group& group, const LevelsRef& levels,
                        const record::KeyColumnsRef& keys, const Soughts& sought,
                        std::uint64_t begin, std::uint64_t end, const Looks& looks) {
  auto part = group.per_lane([&](int) { return begin; });
  for (std::uint64_t length = end - begin; length > 0;) {
    const std::uint64_t half = (length + 1) / 2;
    part = group.per_lane([&](int lane) {
      const bool is_below = levels.last.head[part[lane] + half - 1] < sought[lane].head;
      return part[lane] + runs::algo::step_if(is_below, half);
    });
    length -= half;
  }
  return group.per_lane([&](int lane) {
    const std::uint64_t own = part[lane];
    if (!looks(lane)) return end;
    if (own == end || levels.last.head[own] != sought[lane].head) return own;
    return part_by_keys(levels, keys, sought[lane].query, own, end);
  });
}

/// From `at`, the first entry with the head that is sought, the first one whose key is not below.
/// Bound   log2 of the entries with that head before it, twice.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline std::uint64_t pass_ties(const runs::RunRef& run, const runs::QueriesRef& queries,
                                          const runs::algo::Sought& sought, std::uint64_t at) {
  const auto is_before = [&](std::uint64_t i) {
    return i < run.keys.count && run.keys.head[i] == sought.head &&
           runs::algo::tie_sorts_before(run, i, queries, sought);
  };
  if (!is_before(at)) return at;
  std::uint64_t low = at;  // one that comes before
  std::uint64_t step = 1;
  for (; is_before(low + step); step *= 2) low += step;
  std::uint64_t high = low + step;  // one that does not
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (is_before(middle) ? low : high) = middle;
  }
  return high;
}

/// Places `at` moved on by `half` entries where the last of these have heads below what is sought.
BRECCIA_SINGLE_SOURCE
template <class Group, class Runs, class Soughts, class Places>
BRECCIA_HD auto advanced(const Group& group, const Runs& run, const Soughts& sought,
                         const Places& at, std::uint64_t half) {
  return group.per_lane([&](int lane) {
    if (run[lane] == nullptr) return at[lane];
    const std::uint64_t last = run[lane]->keys.count - 1;
    const std::uint64_t probe = at[lane] + half - 1;
    const std::uint64_t entry = probe < last ? probe : last;
    const bool is_before = run[lane]->keys.head[entry] < sought[lane].head;
    return at[lane] + runs::algo::step_if(is_before && probe == entry, half);
  });
}

/// For each lane the first entry of its run with a head that is not below the one that is sought.
/// Shape   run[lane]: null, or a run with keys.
/// Bound   log2(count / 64) + 7 reads of heads a lane, all lanes in step, and no jump that depends
///         on one.
BRECCIA_SINGLE_SOURCE
template <class Group, class Runs, class Soughts>
BRECCIA_HD auto first_head(const Group& group, const Runs& run, const Soughts& sought) {
  auto length = group.per_lane([&](int lane) {
    return run[lane] == nullptr ? 0 : runs::fence_count(run[lane]->keys.count);
  });
  auto block = group.per_lane([&](int) { return std::uint64_t{0}; });
  while (group.ballot([&](int lane) { return length[lane] > 1; }) != 0) {
    block = group.per_lane([&](int lane) {
      const std::uint64_t half = length[lane] / 2;
      if (half == 0) return block[lane];
      const bool is_before = run[lane]->fence[block[lane] + half] < sought[lane].head;
      return block[lane] + runs::algo::step_if(is_before, half);
    });
    length = group.per_lane([&](int lane) { return length[lane] - length[lane] / 2; });
  }
  auto at = group.per_lane([&](int lane) { return block[lane] * runs::kFenceStride; });
  for (std::uint64_t half = runs::kFenceStride / 2; half > 0; half /= 2) {
    at = advanced(group, run, sought, at, half);
  }
  return advanced(group, run, sought, at, 1);
}

/// The first entry of each lane's run that is not below what is sought.
/// Shape   run[lane]: null, or a run with keys; sought: as that run's heads are.
BRECCIA_SINGLE_SOURCE
template <class Group, class Runs, class Soughts>
BRECCIA_HD auto lower_bound(const Group& group, const runs::QueriesRef& queries, const Runs& run,
                            const Soughts& sought) {
  const auto at = first_head(group, run, sought);
  group.each_lane([&](int lane) {
    if (run[lane] == nullptr || at[lane] >= run[lane]->keys.count) return;
    base::prefetch(run[lane]->keys.tail + run[lane]->keys.tail_at(at[lane]));
    base::prefetch(run[lane]->payload + at[lane]);
  });
  return group.per_lane([&](int lane) {
    if (run[lane] == nullptr || sought[lane].side < 0) return std::uint64_t{0};
    return pass_ties(*run[lane], queries, sought[lane], at[lane]);
  });
}

/// The run of each lane's part; null: there is none, `end`, or RocksDB's.
BRECCIA_SINGLE_SOURCE
template <class Group, class Parts>
BRECCIA_HD auto runs_of(const Group& group, const LevelsRef& levels, const Parts& part,
                        std::uint64_t end) {
  return group.per_lane([&](int lane) -> const runs::RunRef* {
    if (part[lane] == end || levels.run[part[lane]].keys.count == 0) return nullptr;
    return &levels.run[part[lane]];
  });
}

/// What is sought, with heads as each lane's run has them.
BRECCIA_SINGLE_SOURCE
template <class Group, class Runs, class Soughts>
BRECCIA_HD auto soughts_in(const Group& group, const runs::QueriesRef& queries, const Runs& run,
                           const Soughts& sought) {
  return group.per_lane([&](int lane) {
    return run[lane] == nullptr ? sought[lane]
                                : runs::algo::sought_in(*run[lane], queries, sought[lane]);
  });
}

/// What a part says of a key: a place, or that it does not have it.
struct Answer {
  std::uint64_t place = kNowhere;
  std::uint32_t part = 0;
};

/// Looks keys up and stores what each found.
/// Shape   which[count]: which of `queries` are sought; null: all, and count is their number.
/// Threads any number of groups; each writes only its own answers.
struct Find {
  static constexpr int kBlockThreads = 128;  // it keeps more state a thread than other steps
  LevelsRef levels;
  runs::QueriesRef queries;
  const std::uint32_t* which = nullptr;
  std::uint64_t count = 0;
  FoundRef found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const auto answer = look_up(group, first);
    group.each_lane([&](int lane) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      if (i >= count) return;
      found.place[i] = answer[lane].place;
      found.part[i] = answer[lane].part;
    });
  }

  /// Lanes behind the last query repeat it.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD auto look_up(const Group& group, std::uint64_t first) const {
    const auto sought = group.per_lane([&](int lane) {
      const std::uint64_t own = first + static_cast<std::uint64_t>(lane);
      const std::uint64_t i = own < count ? own : count - 1;
      return runs::algo::load_sought(queries, which == nullptr ? i : which[i]);
    });
    auto answer = group.per_lane([&](int) { return Answer(); });
    std::uint64_t begin = 0;
    for (std::uint64_t level = 0; level < levels.levels; ++level) {
      const std::uint64_t end = levels.level_end[level];
      answer = look_in(group, sought, answer, begin, end);
      if (group.ballot([&](int lane) { return answer[lane].place == kNowhere; }) == 0) break;
      begin = end;
    }
    return answer;
  }

 private:
  /// The same in the parts [begin, end), for lanes without an answer.
  BRECCIA_SINGLE_SOURCE
  template <class Group, class Soughts, class Answers>
  BRECCIA_HD auto look_in(const Group& group, const Soughts& sought, const Answers& before,
                          std::uint64_t begin, std::uint64_t end) const {
    const auto part = part_of(group, levels, queries.keys, sought, begin, end,
                              [&](int lane) { return before[lane].place == kNowhere; });
    const auto run = runs_of(group, levels, part, end);
    const auto own = soughts_in(group, queries, run, sought);
    const auto at = lower_bound(group, queries, run, own);
    return group.per_lane([&](int lane) {
      if (part[lane] == end) return before[lane];
      const auto number = static_cast<std::uint32_t>(part[lane]);
      if (run[lane] == nullptr) {
        const bool is_before =
            record::compare_keys(queries.keys, own[lane].query, levels.first, part[lane]) < 0;
        return is_before ? before[lane] : Answer{kAsk, number};
      }
      const runs::RunRef& in = *run[lane];
      const std::uint64_t i = at[lane];
      const bool is_there =
          i < in.keys.count && runs::algo::is_key(in.keys, i, queries.keys, own[lane]);
      return is_there ? Answer{in.payload[i], number} : before[lane];
    });
  }
};

/// Stores for each key and each level where the level's entries that are not below it begin.
/// Shape   found[level * count + i] for key i of all of `queries`: kNowhere: behind all of them;
///         kAsk: with keys that RocksDB has; else the place of an entry, and its part.
/// Threads any number of groups; each writes only its own answers.
struct Seek {
  static constexpr int kBlockThreads = 128;
  LevelsRef levels;
  runs::QueriesRef queries;
  FoundRef found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t count = queries.keys.count;
    const auto sought = group.per_lane([&](int lane) {
      const std::uint64_t own = first + static_cast<std::uint64_t>(lane);
      return runs::algo::load_sought(queries, own < count ? own : count - 1);
    });
    std::uint64_t begin = 0;
    for (std::uint64_t level = 0; level < levels.levels; ++level) {
      const std::uint64_t end = levels.level_end[level];
      const auto part =
          part_of(group, levels, queries.keys, sought, begin, end, [](int) { return true; });
      const auto run = runs_of(group, levels, part, end);
      const auto own = soughts_in(group, queries, run, sought);
      const auto at = lower_bound(group, queries, run, own);
      group.each_lane([&](int lane) {
        const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
        if (i >= count) return;
        std::uint64_t place = part[lane] == end ? kNowhere : kAsk;
        // There is one: the part's last key is not below what is sought.
        if (run[lane] != nullptr && at[lane] < run[lane]->keys.count) {
          place = run[lane]->payload[at[lane]];
        }
        found.place[level * count + i] = place;
        found.part[level * count + i] = static_cast<std::uint32_t>(part[lane]);
      });
      begin = end;
    }
  }
};

}  // namespace breccia::residency::algo
