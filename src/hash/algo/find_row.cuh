#pragma once

#include <cstdint>

#include "hash/algo/cached.cuh"
#include "hash/algo/ids.cuh"
#include "hash/algo/run.cuh"

/// From an id to its row in one go: for few of them a launch more takes longer than all the work.

namespace breccia::hash::algo {

/// Looks ids up in a table of payloads, and copies the rows of those that a cache has.
/// Shape   id[n], row[n * words]; found[n]: 1 where there is a copy, else 0; missing[n]: the
///         payload, where it has a value and no copy, else 0.
/// Launch  group g: id g, over n * W items. Nobody admits meanwhile.
template <bool kGrows, class Word>
struct FindRow {
  static constexpr int kBlockThreads = 128;

  GrowingRef tables;
  CacheRef cache;
  const std::uint64_t* id;
  Word* row;
  std::uint8_t* found;
  std::uint64_t* missing;
  std::uint32_t words;  // of a row

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    const std::uint64_t payload = find(group, byte_swapped(id[i]));
    const std::uint64_t copy = group.from(0, [&](int) { return copy_of(group, cache, payload); });
    const bool is_cached = copy != kNoCopy;
    group.each_lane([&](int lane) {
      if (lane == 0) {
        found[i] = is_cached ? 1 : 0;
        missing[i] = has_value(payload) && !is_cached ? payload : 0;
      }
      if (!is_cached) return;
      const Word* const from = reinterpret_cast<const Word*>(cache.rows) + copy * words;
      for (auto w = static_cast<std::uint32_t>(lane); w < words; w += Group::kWidth) {
        row[i * words + w] = from[w];
      }
    });
  }

 private:
  /// What the table has of a number; 0: nothing.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD std::uint64_t find(const Group& group, std::uint64_t number) const {
    WordKeys::Key key{number};
    std::uint64_t seen = 0;  // by a lane that sees it
    const auto see = [&](std::uint64_t /*slot*/, std::uint64_t payload) { seen = payload; };
    Look look = Look::kAbsent;
    if constexpr (kGrows) {
      look = look_for(group, tables.old, key.place(tables.old), key, tables.moved, nullptr, see);
    }
    if (look == Look::kAbsent) {
      look = look_for(group, tables.table, key.place(tables.table), key, 0, nullptr, see);
    }
    if (look == Look::kAbsent) return 0;
    const auto all = group.per_lane([&](int) { return seen; });
    const exec::LaneMask with = group.ballot([&](int lane) { return all[lane] != 0; });
    return with == 0 ? 0 : group.from(exec::first_set(with), [&](int lane) { return all[lane]; });
  }
};

}  // namespace breccia::hash::algo
