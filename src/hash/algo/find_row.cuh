#pragma once

#include <cstdint>

#include "hash/algo/cached.cuh"
#include "hash/algo/ids.cuh"
#include "hash/algo/logged.cuh"
#include "hash/algo/run.cuh"

/// From an id to its row in one go: for few of them a launch more takes longer than all the work.

namespace breccia::hash::algo {

/// Where the row of an id came from.
enum class RowState : std::uint8_t {
  kDone,     // from the cache, or there is none
  kRead,     // from the log
  kMissing,  // from nowhere yet
};

/// Looks ids up in a table of payloads, and copies the rows of those that a cache has, or that lie
/// in what kernels read of a log. What a log has of an id in a record of another header is missing:
/// whether it is a row the host says.
/// Shape   id[n], row[n * words]; found[n]: 1 where there is a row, else 0; state[n], kDone before,
///         and payloads[n]: written where a row is not done, as they may lie behind a bus.
/// Launch  group g: id g, over n * W items. Nobody admits meanwhile.
/// Order   records of payloads in the table were written before the launch.
template <bool kGrows, class Word>
struct FindRow {
  static constexpr int kBlockThreads = 128;
  GrowingRef tables;
  CacheRef cache;
  LoggedRow logged;
  const std::uint64_t* id;
  Word* row;
  std::uint8_t* found;
  RowState* state;
  std::uint64_t* payloads;
  std::uint32_t words;  // of a row

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    const std::uint64_t payload = find(group, byte_swapped(id[i]));
    if (!has_value(payload)) return say(group, i, false, RowState::kDone, 0);
    const std::uint64_t copy =
        group.from(0, [&](int) { return copy_of(group, cache, id[i], payload); });
    if (copy != kNoCopy) {
      const Word* const from = reinterpret_cast<const Word*>(cache.rows) + copy * words;
      copy_words(group, from, words, row + i * words);
      return say(group, i, true, RowState::kDone, 0);
    }
    // Records lie at multiples of 8 bytes.
    const std::uint32_t small_words = words * (sizeof(Word) / sizeof(std::uint64_t));
    const std::uint64_t* const record = logged.at(payload);
    if (record == nullptr) return say(group, i, false, RowState::kMissing, payload);
    // Copied at once: a row behind a look at the header would be a second way over the bus.
    auto* const to = reinterpret_cast<std::uint64_t*>(row + i * words);
    const bool is_expected = record[0] == logged.header;
    copy_words(group, record + logged.words_before, small_words, to);
    const bool is_row = is_expected || record[0] == logged.plain;
    if (!is_expected && is_row)
      copy_words(group, record + LoggedRow::kWordsBefore, small_words, to);
    say(group, i, is_row, is_row ? RowState::kRead : RowState::kMissing, payload);
  }

 private:
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void say(const Group& group, std::uint64_t i, bool is_found, RowState is,
                      std::uint64_t payload) const {
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      found[i] = is_found ? 1 : 0;
      if (is == RowState::kDone) return;
      state[i] = is;
      payloads[i] = payload;
    });
  }
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
