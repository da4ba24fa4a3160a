#pragma once

#include <cstdint>

#include "base/assert.h"
#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/algo/logged.cuh"
#include "hash/algo/words.cuh"
#include "hash/refs.h"

/// Copies of rows that lie in a log, in a device's memory, by their ids and payloads. What a
/// payload points to never changes, so a copy is never out of date: one of an old version is not
/// asked for any more, and goes as others come, or has the new version written over it (Renew).
///
/// A row may be in seven places, those of its id's set. Where the policy is frequency, the cache
/// keeps the rows that are asked for most often:
///
/// 1. A lookup that finds a row gives it a credit, up to kCreditMax.
/// 2. One that misses is counted beside the set, in two of 64 counters, which other rows of the set
///    may have, too: the smaller one says how often the row was missing, or more.
/// 3. The row comes in if it was missing more often than the poorest of the set has credits. The
///    count becomes its credit, and its counters begin anew.
/// 4. With each kMissesOfAge misses of a set all its credits and counts are halved, so what was
///    asked for long ago is forgotten.
///
/// So rows that are asked for once do not come in, and a row that comes in need not begin from the
/// bottom again.
///
/// A row that is pinned (pinned.cuh) keeps its place.
///
/// Where it is recency, each row that is offered comes in, and the poorest goes: a lookup that
/// finds a row gives it all credit that there is, as coming in does, and each miss of the set takes
/// some from all. Where it is random, each comes in, and whoever is in its place goes.
///
/// Source  [tinylfu] for admission by counts that are halved; [countmin] for the counters.
///         Deviation: counters of rows that are missing alone, as the others have credits; both of
///         a row in one word of its set, so one exchange counts. [gphash] 3.3 for caching what is
///         asked for most. Deviation: rows in the place of buckets, and no loading at intervals, as
///         there is nothing to be kept consistent.

namespace breccia::hash::algo {

/// A payload says in its low bits what its record does; where they are clear it has a value.
BRECCIA_HD inline bool has_value(std::uint64_t payload) {
  return payload != 0 && (payload & kPayloadOperation) == 0;
}

/// What an id's set and counters follow from.
BRECCIA_HD inline std::uint64_t cache_hash_of(const CacheRef& cache, std::uint64_t id) {
  return exec::permuted(id, cache.add, cache.factor);
}
BRECCIA_HD inline std::uint64_t set_of(const CacheRef& cache, std::uint64_t hash) {
  return exec::scaled(hash, cache.set_count);
}

/// One set, of 64 bytes: seven payloads, a byte for each, and one that counts misses. A row's byte
/// has its credit in the low half, and in the high one by how many it is pinned.
struct SetRef {
  static constexpr int kPairs = 4;
  static constexpr std::uint64_t kCreditMax = 15;
  static constexpr std::uint64_t kPinsMax = 15;
  /// Nine for each of its rows: with fewer, what is asked for often is known less well; with more,
  /// what was hot stays longer (docs/performance.md, "Which rows a cache keeps").
  static constexpr std::uint64_t kMissesOfAge = 64;
  /// A place whose row is being written; no payload that has a value.
  static constexpr std::uint64_t kFilling = 1;

  Pair* pairs;

  BRECCIA_HD static SetRef of(const CacheRef& cache, std::uint64_t set) {
    return {cache.sets + set * kPairs};
  }
  BRECCIA_HD std::uint64_t* word(int way) const { return &pairs[0].first + way; }
  BRECCIA_HD std::uint64_t* credits() const { return &pairs[0].first + kCacheWays; }

  BRECCIA_HD static std::uint64_t credit_of(std::uint64_t credits, int way) {
    return credits >> 8 * way & kCreditMax;
  }
  BRECCIA_HD static std::uint64_t pins_of(std::uint64_t credits, int way) {
    return credits >> (8 * way + 4) & kPinsMax;
  }
  BRECCIA_HD static std::uint64_t one_of(int way) { return std::uint64_t{1} << 8 * way; }
  BRECCIA_HD static std::uint64_t pin_of(int way) { return std::uint64_t{1} << (8 * way + 4); }
  BRECCIA_HD static std::uint64_t misses_of(std::uint64_t credits) {
    return credits >> 8 * kCacheWays;
  }
  /// Credits behind one more miss.
  BRECCIA_HD static std::uint64_t after_miss(std::uint64_t credits) {
    constexpr std::uint64_t kHalves = 0x0007'0707'0707'0707;
    if (misses_of(credits) + 1 == kMissesOfAge) return (credits >> 1 & kHalves) | all_pins(credits);
    return credits + one_of(kCacheWays);
  }
  /// The same where the policy is recency: a row that nobody asks for has none behind so many
  /// misses as its set has places, or one more.
  BRECCIA_HD static std::uint64_t older(std::uint64_t credits) {
    constexpr std::uint64_t kOfMiss = 2;
    std::uint64_t left = all_pins(credits);
    for (int way = 0; way < kCacheWays; ++way) {
      const std::uint64_t credit = credit_of(credits, way);
      left += (credit < kOfMiss ? 0 : credit - kOfMiss) * one_of(way);
    }
    return left;
  }

 private:
  BRECCIA_HD static std::uint64_t all_pins(std::uint64_t credits) {
    return credits & 0x00f0'f0f0'f0f0'f0f0;
  }
};

/// A place of a set, and for how many misses it is to be had: one more than its row has credits.
struct PricedPlace {
  int way = -1;  // -1: a place is being filled, maybe with the very row, or all rows are pinned
  std::uint64_t word = 0;
  std::uint64_t price = ~std::uint64_t{0};
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
  /// Of several, which may be where two lanes brought it at once, one that is pinned.
  [[nodiscard]] BRECCIA_HD int pinned_way_of(std::uint64_t payload) const {
    int way = way_of(payload);
    for (int i = 0; i < kCacheWays; ++i) way = word[i] == payload && is_pinned(i) ? i : way;
    return way;
  }
  [[nodiscard]] BRECCIA_HD bool is_filling() const { return way_of(SetRef::kFilling) >= 0; }
  [[nodiscard]] BRECCIA_HD bool is_pinned(int way) const {
    return SetRef::pins_of(credits(), way) > 0;
  }
  /// An empty place, which is free, or else that of the row with the fewest credits.
  [[nodiscard]] BRECCIA_HD PricedPlace poorest() const {
    PricedPlace poorest;
    for (int i = 0; i < kCacheWays; ++i) {
      const std::uint64_t price = word[i] == 0 ? 0 : SetRef::credit_of(credits(), i) + 1;
      if (price < poorest.price && !is_pinned(i)) {
        poorest = {.way = i, .word = word[i], .price = price};
      }
    }
    return is_filling() ? PricedPlace{} : poorest;
  }
  /// An empty place, or any one.
  [[nodiscard]] BRECCIA_HD PricedPlace any(std::uint64_t hash) const {
    const PricedPlace free = poorest();
    if (free.way < 0 || free.price == 0) return free;
    auto way = static_cast<int>((hash >> 16 ^ SetRef::misses_of(credits())) % kCacheWays);
    while (is_pinned(way)) way = (way + 1) % kCacheWays;
    return {.way = way, .word = word[way], .price = 0};
  }
};

/// How often a row was missing: the smaller one of two counters of four bits. They lie in one of
/// the words of its set, each of which has 16.
struct MissCounter {
  static constexpr std::uint64_t kWords = 4;  // of a set
  static constexpr std::uint64_t kCountMax = 15;

  std::uint64_t* word;
  int first;   // bit of the word
  int second;  // another one

  BRECCIA_HD static MissCounter of(const CacheRef& cache, std::uint64_t set, std::uint64_t hash) {
    // The set follows from the hash's first bits, these from its last.
    const auto first = static_cast<int>(hash >> 2 & 15);
    const auto second = first ^ static_cast<int>(1 + (hash >> 6 & 0xffff) % 15);
    return {cache.misses + set * kWords + hash % kWords, 4 * first, 4 * second};
  }
  /// Counts a miss; returns how many there were, or more. Called by one lane.
  /// Order   where others count in the word at once, one of them does.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD std::uint64_t count(const Group& group) const {
    const std::uint64_t seen = exec::load_relaxed_device(group, word);
    const std::uint64_t one = seen >> first & kCountMax;
    const std::uint64_t other = seen >> second & kCountMax;
    const std::uint64_t least = one < other ? one : other;
    if (least == kCountMax) return least;
    // The larger one has counted another row besides, and stays.
    const std::uint64_t after =
        seen + (std::uint64_t{one == least} << first) + (std::uint64_t{other == least} << second);
    (void)exec::compare_exchange_acq_rel_device(group, word, seen, after);
    return least + 1;
  }
  /// Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void begin_anew(const Group& group) const {
    (void)exec::and_acq_rel_device(group, word, ~(kCountMax << first | kCountMax << second));
  }
  /// All counters of a word.
  BRECCIA_HD static std::uint64_t halved(std::uint64_t counters) {
    return counters >> 1 & 0x7777'7777'7777'7777;
  }
};

/// Of a place that the caller is filling: nobody else gives it a credit. Credits may be halved in
/// between. Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void begin_credits(const Group& group, const SetRef& set, int way, std::uint64_t byte) {
  BRECCIA_INVARIANT(byte <= 0xff);
  (void)exec::and_acq_rel_device(group, set.credits(), ~(SetRef::one_of(way) * 0xff));
  (void)exec::add_relaxed_device(group, set.credits(), SetRef::one_of(way) * byte);
}

/// Writes a row to a place of a set that the caller is filling, and ends that. Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Word, class Group>
BRECCIA_HD void fill_place(const Group& group, const CacheRef& cache, std::uint64_t set, int way,
                           std::uint64_t payload, const Word* row, std::uint32_t words) {
  Word* const to = reinterpret_cast<Word*>(cache.rows) +
                   (set * kCacheWays + static_cast<std::uint64_t>(way)) * words;
  for (std::uint32_t word = 0; word < words; ++word) to[word] = row[word];
  exec::store_release_device(group, SetRef::of(cache, set).word(way), payload);
}

/// What copy_of() says of payloads without one.
inline constexpr std::uint64_t kNoCopy = ~std::uint64_t{0};

/// Where many ask for one row at once, one of them counts. Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void give_credit(const Group& group, const SetRef& set, std::uint64_t credits, int way,
                            RowCachePolicy policy) {
  const std::uint64_t credit = SetRef::credit_of(credits, way);
  BRECCIA_INVARIANT(credit <= SetRef::kCreditMax);
  if (credit == SetRef::kCreditMax || policy == RowCachePolicy::kRandom) return;
  const std::uint64_t more =
      policy == RowCachePolicy::kRecency ? SetRef::kCreditMax - credit : std::uint64_t{1};
  (void)exec::compare_exchange_acq_rel_device(group, set.credits(), credits,
                                              credits + more * SetRef::one_of(way));
}

/// The number of the copy that an id has of a payload, which gets a credit; kNoCopy: there is none.
/// Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t copy_of(const Group& group, const CacheRef& cache, std::uint64_t id,
                                 std::uint64_t payload) {
  if (cache.set_count == 0 || !has_value(payload)) return kNoCopy;
  const std::uint64_t number = set_of(cache, cache_hash_of(cache, id));
  const SetRef set = SetRef::of(cache, number);
  const SetSeen seen = SetSeen::read(group, set);
  const int way = seen.way_of(payload);
  if (way < 0) return kNoCopy;
  give_credit(group, set, seen.credits(), way, cache.policy);
  return number * kCacheWays + static_cast<std::uint64_t>(way);
}

/// What a cache has of payloads.
/// Shape   row[count], the number of each one's copy; code[count], kPresent: there is one.
///         found[i] becomes 1 then, else 0, for the first *asked; the others are absent, and their
///         found stays. missing: those that have a value and no copy.
/// Launch  lane l of a group: payload first + l. Nobody admits meanwhile.
struct FindCached {
  CacheRef cache;
  const std::uint64_t* id;
  const std::uint64_t* payload;
  std::uint64_t count;
  std::uint64_t* row;
  Code* code;
  std::uint8_t* found;
  MissingRef missing;
  const std::uint64_t* asked;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t n = *asked;
    const auto is_missing = group.per_lane([&](int lane) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      if (i >= n && i < count) code[i] = Code::kAbsent;
      return i < n && look(group, i);
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
    const std::uint64_t copy = copy_of(group, cache, id[i], one);
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

/// Counts rows that were missing, and takes those into the cache that were it often enough.
/// Shape   id[requests], row[requests * words], found[requests]: those of FindCached, all brought
///         by now.
/// Launch  item k: missing row k. Nobody else is at the cache.
/// Order   a place is kFilling while its row is written, so nobody else takes it; its payload is
///         released behind the row, for who takes it next. Rows are read in later launches. Where
///         two lanes bring one row at once it may come into two places; it costs one, and the place
///         that is not found falls to who comes next.
/// Cost    96 bytes read, and two exchanges; with few exceptions that is all.
template <class Word>
struct Admit {
  CacheRef cache;
  const std::uint64_t* id;
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
      const std::uint64_t hash = cache_hash_of(cache, id[i]);
      const std::uint64_t set = set_of(cache, hash);
      const int way = claim(group, set, hash, payload[k]);
      if (way < 0) return;
      fill_place(group, cache, set, way, payload[k], row + i * words, words);
    });
  }

 private:
  /// A place whose row is the caller's to write; -1: there is none for it. Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD int claim(const Group& group, std::uint64_t number, std::uint64_t hash,
                       std::uint64_t payload) const {
    const SetRef set = SetRef::of(cache, number);
    const SetSeen seen = SetSeen::read(group, set);
    if (seen.way_of(payload) >= 0) return -1;
    const MissCounter counter = MissCounter::of(cache, number, hash);
    const bool is_counted = cache.policy == RowCachePolicy::kFrequency;
    const std::uint64_t misses = is_counted ? counter.count(group) : SetRef::kCreditMax;
    age(group, number, seen.credits());
    const PricedPlace place =
        cache.policy == RowCachePolicy::kRandom ? seen.any(hash) : seen.poorest();
    if (place.way < 0 || (is_counted && misses < place.price)) return -1;
    const std::uint64_t was = exec::compare_exchange_acq_rel_device(
        group, set.word(place.way), place.word, std::uint64_t{SetRef::kFilling});
    if (was != place.word) return -1;
    if (is_counted) counter.begin_anew(group);
    static_assert(MissCounter::kCountMax <= SetRef::kCreditMax);
    begin_credits(group, set, place.way, misses);
    return place.way;
  }
  /// Counts a miss of a set; with the last one of an age all its credits and counts are halved.
  /// Where many miss at once, one of them counts, and a word in which others count stays as it is.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void age(const Group& group, std::uint64_t number, std::uint64_t credits) const {
    const bool is_recency = cache.policy == RowCachePolicy::kRecency;
    const std::uint64_t after = is_recency ? SetRef::older(credits) : SetRef::after_miss(credits);
    const std::uint64_t was = exec::compare_exchange_acq_rel_device(
        group, SetRef::of(cache, number).credits(), credits, after);
    const bool is_counted = cache.policy == RowCachePolicy::kFrequency;
    if (was != credits || !is_counted || SetRef::misses_of(after) != 0) return;
    for (std::uint64_t i = 0; i < MissCounter::kWords; ++i) {
      std::uint64_t* const word = cache.misses + number * MissCounter::kWords + i;
      const std::uint64_t counters = exec::load_relaxed_device(group, word);
      (void)exec::compare_exchange_acq_rel_device(group, word, counters,
                                                  MissCounter::halved(counters));
    }
  }
};

/// Writes new versions of rows over those before that are in the cache: what is written at each
/// step stays there.
/// Shape   row[count * words], of records of a log, one behind the other from first_payload on;
///         before[count], code[count]: what the index had of each id before that, kPresent if
///         anything. newest[count]: what it has now, which may be another one's of the batch, or
///         nobody's of it; null: each its own.
/// Launch  group g: id g, over count * W items. Nobody else is at the cache.
/// Order   what is written is read in later launches. A version is what one record has replaced, so
///         one group is after its place. The newest one may be there already, as a lookup brought
///         it: of the two a place that is pinned stays.
template <class Word>
struct Renew {
  CacheRef cache;
  const std::uint64_t* id;
  const std::uint64_t* before;
  const Code* code;
  const std::uint64_t* newest;
  std::uint64_t count;
  std::uint64_t first_payload;
  std::uint64_t record_bytes;
  const Word* row;
  std::uint32_t words;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    if (code[i] != Code::kPresent || !has_value(before[i])) return;
    const std::uint64_t payload = newest == nullptr ? payload_of(i) : newest[i];
    const std::uint64_t from = (payload - first_payload) / record_bytes;
    // Something newer was there before, or is since.
    if (before[i] >= payload_of(i) || payload < first_payload || from >= count) return;
    BRECCIA_INVARIANT(payload == payload_of(from));
    const std::uint64_t number = set_of(cache, cache_hash_of(cache, id[i]));
    const int way = group.from(
        0, [&](int) { return claim(group, SetRef::of(cache, number), before[i], payload); });
    if (way < 0) return;
    const std::uint64_t place = number * kCacheWays + static_cast<std::uint64_t>(way);
    copy_words(group, row + from * words, words,
               reinterpret_cast<Word*>(cache.rows) + place * words);
    group.each_lane([&](int lane) {
      if (lane == 0) {
        exec::store_release_device(group, SetRef::of(cache, number).word(way), payload);
      }
    });
  }

 private:
  [[nodiscard]] BRECCIA_HD std::uint64_t payload_of(std::uint64_t i) const {
    return first_payload + i * record_bytes;
  }
  /// The place of the version before, whose row is the group's to write; -1: there is none, or the
  /// new one has another. Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD static int claim(const Group& group, const SetRef& set, std::uint64_t before,
                              std::uint64_t payload) {
    const SetSeen seen = SetSeen::read(group, set);
    const int there = seen.pinned_way_of(before);
    if (there < 0) return -1;
    const int other = seen.pinned_way_of(payload);
    if (other >= 0 && !seen.is_pinned(there)) {
      exec::store_relaxed_device(group, set.word(there), std::uint64_t{0});
      return -1;
    }
    if (other >= 0 && !seen.is_pinned(other)) {
      exec::store_relaxed_device(group, set.word(other), std::uint64_t{0});
    }
    return there;
  }
};

}  // namespace breccia::hash::algo
