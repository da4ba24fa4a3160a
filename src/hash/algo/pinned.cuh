#pragma once

#include <cstdint>

#include "base/assert.h"
#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/algo/cached.cuh"
#include "hash/refs.h"

/// Rows that keep their places in a cache until whoever pinned them lets them go.
///
/// A row's byte in its set counts by how many it is pinned. Each of those has a bit for each place
/// of the cache, so it counts a row once however often it was asked for, and what it lets go is
/// what it pinned: an id that has another row by then, or none, makes no difference.
///
/// Source  FBGEMM's table-batched embeddings, whose prefetch locks rows of the next batches by
///         counters that callers keep right. Deviation: a bit for each place and holder besides.

namespace breccia::hash::algo {

/// Bits for the places of a cache.
using PinBits = std::uint32_t;
inline constexpr std::uint64_t kPinBits = 32;
inline std::uint64_t pin_words_of(std::uint64_t places) {
  return (places + kPinBits - 1) / kPinBits;
}

/// The first launch of Pin is for rows that are in the cache, so that none of those loses its place
/// to one that is not; in each other one at least one of the rows that are after places of one set
/// gets one of its seven, or all know that there is none.
inline constexpr int kPinLaunches = 1 + kCacheWays + 1;

/// What launches of Pin count.
struct PinCounts {
  std::uint64_t pinned = 0;               // bits that were set
  std::uint64_t refused = 0;              // requests
  std::uint64_t left[kPinLaunches] = {};  // requests that a launch left to the next one
};

/// Pins rows, of which those that are not in the cache come in, whatever others they were asked
/// for.
/// Shape   id[count], payload[count], row[count * words]; found[count]: whether it is a row, and
///         becomes 0 where its set has seven others that are pinned, or where fifteen others have
///         it; is_pinned[count]: of those that are done; bits[pin_words_of(places)]: of the
///         holder; *counts: of all launches.
/// Launch  item i: row i. kPinLaunches of them, numbered from 0 on. Nobody else is at the cache.
/// Order   places as Admit's. Who takes one has read the set's bytes before its payloads and behind
///         them, and they were the same: they are changed behind a place is claimed, and before its
///         payload is named, so each of the places was what they say of it.
/// Cost    a row that is there: 64 bytes read, an exchange on its bit, and of each holder's first
///         one an addition.
template <class Word>
struct Pin {
  CacheRef cache;
  const std::uint64_t* id;
  const std::uint64_t* payload;
  std::uint64_t count;
  const Word* row;
  std::uint8_t* found;
  std::uint8_t* is_pinned;
  PinBits* bits;
  PinCounts* counts;
  std::uint32_t words;
  int launch = 0;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    if (launch > 0 && counts->left[launch - 1] == 0) return;
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      if (found[i] == 0 || is_pinned[i] != 0) return;
      switch (pin(group, i)) {
        case Outcome::kPinned:
          is_pinned[i] = 1;
          break;
        case Outcome::kRefused:
          found[i] = 0;
          (void)exec::add_relaxed_device(group, &counts->refused, std::uint64_t{1});
          break;
        case Outcome::kLater:
          (void)exec::add_relaxed_device(group, &counts->left[launch], std::uint64_t{1});
      }
    });
  }

 private:
  enum class Outcome : std::uint8_t { kPinned, kRefused, kLater };

  /// Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD Outcome pin(const Group& group, std::uint64_t i) const {
    const std::uint64_t number = set_of(cache, cache_hash_of(cache, id[i]));
    const SetRef set = SetRef::of(cache, number);
    const std::uint64_t credits_before = exec::load_acquire_device(group, set.credits());
    const SetSeen seen = SetSeen::read(group, set);
    const int way = seen.way_of(payload[i]);
    if (launch == 0) return way < 0 ? Outcome::kLater : pin_there(group, seen, number, way);
    if (way >= 0) return Outcome::kPinned;  // for another request, when it came in
    if (seen.is_filling()) return Outcome::kLater;
    exec::fence_acquire_device(group);
    const std::uint64_t credits_behind = exec::load_relaxed_device(group, set.credits());
    if (credits_before != seen.credits() || credits_before != credits_behind) {
      return Outcome::kLater;
    }
    const PricedPlace place = seen.poorest();
    if (place.way < 0) return Outcome::kRefused;
    const std::uint64_t was = exec::compare_exchange_acq_rel_device(
        group, set.word(place.way), place.word, std::uint64_t{SetRef::kFilling});
    if (was != place.word) return Outcome::kLater;
    const std::uint64_t credit =
        cache.policy == RowCachePolicy::kRecency ? SetRef::kCreditMax : std::uint64_t{1};
    constexpr std::uint64_t kOnePin = 16;
    begin_credits(group, set, place.way, credit + kOnePin);
    const bool is_first = take_bit(group, number, place.way);
    BRECCIA_INVARIANT(is_first);
    fill_place(group, cache, number, place.way, payload[i], row + i * words, words);
    return Outcome::kPinned;
  }

  /// A row that is in the cache.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD Outcome pin_there(const Group& group, const SetSeen& seen, std::uint64_t number,
                               int way) const {
    if (SetRef::pins_of(seen.credits(), way) == SetRef::kPinsMax) {
      exec::fence_acquire_device(group);  // the last one may be of another request
      return has_bit(group, number, way) ? Outcome::kPinned : Outcome::kRefused;
    }
    if (take_bit(group, number, way)) {
      (void)exec::add_acq_rel_device(group, SetRef::of(cache, number).credits(),
                                     SetRef::pin_of(way));
    }
    return Outcome::kPinned;
  }

  BRECCIA_HD static std::uint64_t place_of(std::uint64_t number, int way) {
    return number * kCacheWays + static_cast<std::uint64_t>(way);
  }
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool has_bit(const Group& group, std::uint64_t number, int way) const {
    const std::uint64_t place = place_of(number, way);
    const PinBits word = exec::load_relaxed_device(group, bits + place / kPinBits);
    return (word >> place % kPinBits & 1) != 0;
  }
  /// Whether the holder had it not.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool take_bit(const Group& group, std::uint64_t number, int way) const {
    const std::uint64_t place = place_of(number, way);
    const PinBits bit = PinBits{1} << place % kPinBits;
    const PinBits was = exec::or_acq_rel_device(group, bits + place / kPinBits, bit);
    const bool is_first = (was & bit) == 0;
    if (is_first) (void)exec::add_relaxed_device(group, &counts->pinned, std::uint64_t{1});
    return is_first;
  }
};

/// Lets go what a holder has pinned.
/// Shape   bits[count], as Pin has left them.
/// Launch  item i: word i of them. Lookups may be under way, nobody else.
struct LetGo {
  CacheRef cache;
  const PinBits* bits;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      for (PinBits left = bits[i]; left != 0; left &= left - 1) {
        const std::uint64_t place =
            kPinBits * i + static_cast<std::uint64_t>(exec::first_set(left));
        const SetRef set = SetRef::of(cache, place / kCacheWays);
        const std::uint64_t one = SetRef::pin_of(static_cast<int>(place % kCacheWays));
        const std::uint64_t was = exec::add_relaxed_device(group, set.credits(), ~one + 1);
        BRECCIA_INVARIANT((was & one * SetRef::kPinsMax) != 0);
      }
    });
  }
};

}  // namespace breccia::hash::algo
