#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/algo/words.cuh"
#include "hash/refs.h"

/// Copies of rows that lie in a log, in a device's memory, by their payloads. What a payload points
/// to never changes, so a copy is never out of date: one of an old version is not asked for any
/// more, and goes as others come.
///
/// A row may be in seven places, those of its set. Each has a credit, which grows with every
/// lookup up to kCreditMax. A row that is missing tries an empty place, or any one: where there is
/// no credit left it takes it, else it takes one from it. So rows stay that are asked for more
/// often than others of their set, and those that were once do not stay for long.
///
/// Source  frequent items in a stream, Misra and Gries 1982; CLOCK with counters; [gphash] 3.3 for
///         caching what is asked for most. Deviation: rows in the place of buckets, and no loading
///         at intervals, as there is nothing to be kept consistent.

namespace breccia::hash::algo {

/// A payload says in its low bits what its record does; where they are clear it has a value.
BRECCIA_HD inline bool has_value(std::uint64_t payload) {
  return payload != 0 && (payload & kPayloadOperation) == 0;
}

/// One set, of 64 bytes: seven payloads, and a byte of credit for each.
struct SetRef {
  static constexpr int kPairs = 4;
  static constexpr std::uint64_t kCreditMax = 15;
  /// A place whose row is being written; no payload that has a value.
  static constexpr std::uint64_t kFilling = 1;

  Pair* pairs;

  BRECCIA_HD static SetRef of(const CacheRef& cache, std::uint64_t set) {
    return {cache.sets + set * kPairs};
  }
  BRECCIA_HD std::uint64_t* word(int way) const { return &pairs[0].first + way; }
  BRECCIA_HD std::uint64_t* credits() const { return &pairs[0].first + kCacheWays; }

  BRECCIA_HD static std::uint64_t credit_of(std::uint64_t credits, int way) {
    return credits >> 8 * way & 0xff;
  }
  BRECCIA_HD static std::uint64_t one_of(int way) { return std::uint64_t{1} << 8 * way; }
};

/// A set as it was read.
struct SetSeen {
  std::uint64_t word[kCacheWays + 1];

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD static SetSeen read(const Group& group, const SetRef& set) {
    SetSeen seen;
    for (int i = 0; i < SetRef::kPairs; ++i) {
      const Pair pair = exec::load_pair_device(group, set.pairs + i);
      seen.word[2 * i] = pair.first;
      seen.word[2 * i + 1] = pair.second;
    }
    return seen;
  }
  [[nodiscard]] BRECCIA_HD std::uint64_t credits() const { return word[kCacheWays]; }
  /// -1: it is not there.
  [[nodiscard]] BRECCIA_HD int way_of(std::uint64_t payload) const {
    int way = -1;
    for (int i = 0; i < kCacheWays; ++i) way = word[i] == payload ? i : way;
    return way;
  }
  /// An empty place, or else one by chance.
  [[nodiscard]] BRECCIA_HD int some_way(std::uint64_t chance) const {
    int way = static_cast<int>(chance % kCacheWays);
    for (int i = 0; i < kCacheWays; ++i) way = word[i] == 0 ? i : way;
    return way;
  }
};

BRECCIA_HD inline std::uint64_t set_of(const CacheRef& cache, std::uint64_t payload) {
  constexpr std::uint64_t kFactor = 0x9e37'79b9'7f4a'7c15;
  return scaled(permuted(payload, 0, kFactor), cache.set_count);
}

/// What copy_of() says of payloads without one.
inline constexpr std::uint64_t kNoCopy = ~std::uint64_t{0};

/// Where many ask for one row at once, one of them counts. Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void give_credit(const Group& group, const SetRef& set, std::uint64_t credits, int way) {
  if (SetRef::credit_of(credits, way) == SetRef::kCreditMax) return;
  (void)exec::compare_exchange_acq_rel_device(group, set.credits(), credits,
                                              credits + SetRef::one_of(way));
}

/// The number of a payload's copy, which gets a credit; kNoCopy: there is none. Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t copy_of(const Group& group, const CacheRef& cache, std::uint64_t payload) {
  if (cache.set_count == 0 || !has_value(payload)) return kNoCopy;
  const std::uint64_t number = set_of(cache, payload);
  const SetRef set = SetRef::of(cache, number);
  const SetSeen seen = SetSeen::read(group, set);
  const int way = seen.way_of(payload);
  if (way < 0) return kNoCopy;
  give_credit(group, set, seen.credits(), way);
  return number * kCacheWays + static_cast<std::uint64_t>(way);
}

/// What a cache has of payloads.
/// Shape   row[count], the number of each one's copy; code[count], kPresent: there is one.
///         found[i] becomes 1 then, else 0. missing: those that have a value and no copy.
/// Launch  lane l of a group: payload first + l. Nobody admits meanwhile.
struct FindCached {
  CacheRef cache;
  const std::uint64_t* payload;
  std::uint64_t count;
  std::uint64_t* row;
  Code* code;
  std::uint8_t* found;
  MissingRef missing;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const auto is_missing = group.per_lane([&](int lane) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      return i < count && look(group, i);
    });
    const exec::LaneMask left = group.ballot([&](int lane) { return is_missing[lane]; });
    if (left == 0) return;
    const std::uint64_t begin = group.from(0, [&](int) {
      return exec::add_relaxed_device(group, missing.count,
                                      static_cast<std::uint64_t>(exec::count_set(left)));
    });
    group.each_lane([&](int lane) {
      const exec::LaneMask bit = exec::LaneMask{1} << lane;
      if ((left & bit) == 0) return;
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      const auto at = begin + static_cast<std::uint64_t>(exec::count_set(left & (bit - 1)));
      missing.request[at] = static_cast<std::uint32_t>(i);
      missing.payload[at] = payload[i];
    });
  }

 private:
  /// Whether the row of payload i has to be brought. Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool look(const Group& group, std::uint64_t i) const {
    const std::uint64_t one = payload[i];
    const std::uint64_t copy = copy_of(group, cache, one);
    const bool is_cached = copy != kNoCopy;
    if (is_cached) row[i] = copy;
    code[i] = is_cached ? Code::kPresent : Code::kAbsent;
    found[i] = is_cached ? 1 : 0;
    return has_value(one) && !is_cached;
  }
};

/// Puts rows that were brought where they were missing.
/// Shape   brought[count * words], there[count]: whether it is a row; request[count]: whose it is.
/// Launch  item j: word j of `brought`.
template <class Word>
struct PutFound {
  const Word* brought;
  const std::uint8_t* there;
  const std::uint32_t* request;
  std::uint64_t count;
  Word* row;
  std::uint8_t* found;
  std::uint32_t words;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count * words, [&](std::uint64_t j) {
      const std::uint64_t k = j / words;
      const std::uint64_t word = j % words;
      const std::uint64_t i = request[k];
      if (word == 0) found[i] = there[k];
      if (there[k] != 0) row[i * words + word] = brought[j];
    });
  }
};

/// Takes rows that were missing into the cache, or lowers the credit of one in their place.
/// Shape   row[requests * words], found[requests]: those of FindCached, all brought by now.
/// Launch  item k: missing row k. Nobody else is at the cache.
/// Order   a place is kFilling while its row is written, so nobody else takes it; its payload is
///         released behind the row, for who takes it next. Rows are read in later launches.
template <class Word>
struct Admit {
  CacheRef cache;
  const std::uint64_t* payload;
  const std::uint32_t* request;
  std::uint64_t count;
  const Word* row;
  const std::uint8_t* found;
  std::uint32_t words;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      const std::uint64_t i = request[k];
      if (found[i] == 0) return;
      const std::uint64_t number = set_of(cache, payload[k]);
      const SetRef set = SetRef::of(cache, number);
      const int way = claim(group, set, payload[k], i);
      if (way < 0) return;
      Word* const to = reinterpret_cast<Word*>(cache.rows) +
                       (number * kCacheWays + static_cast<std::uint64_t>(way)) * words;
      for (std::uint32_t word = 0; word < words; ++word) to[word] = row[i * words + word];
      exec::store_release_device(group, set.word(way), payload[k]);
    });
  }

 private:
  /// A place whose row is the caller's to write; -1: there is none for it. Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD static int claim(const Group& group, const SetRef& set, std::uint64_t payload,
                              std::uint64_t chance) {
    const SetSeen seen = SetSeen::read(group, set);
    if (seen.way_of(payload) >= 0) return -1;
    const int way = seen.some_way(permuted(payload + chance, 0, kMixFactor));
    const std::uint64_t there = exec::load_relaxed_device(group, set.word(way));
    if (there == SetRef::kFilling) return -1;
    const std::uint64_t credits = seen.credits();
    const std::uint64_t price = there == 0 ? 0 : SetRef::credit_of(credits, way);
    if (price > 0) {
      (void)exec::compare_exchange_acq_rel_device(group, set.credits(), credits,
                                                  credits - SetRef::one_of(way));
      return -1;
    }
    const std::uint64_t was = exec::compare_exchange_acq_rel_device(
        group, set.word(way), there, std::uint64_t{SetRef::kFilling});
    if (was != there) return -1;
    // One credit, so that the next one that comes does not take it at once.
    (void)exec::add_relaxed_device(group, set.credits(), SetRef::one_of(way));
    return way;
  }
};

}  // namespace breccia::hash::algo
