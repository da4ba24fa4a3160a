#pragma once

#include <cstdint>

#include "base/assert.h"
#include "hash/algo/run.cuh"

/// What happens at a table while nobody else is there: slots of deleted keys become empty, and keys
/// move to their other bucket for those that found both of theirs full.

namespace breccia::hash::algo {

/// The longest way on which keys make room for one.
inline constexpr int kMovesMax = 4;

/// Empties the slots of deleted keys; what lies behind them moves up. Item i: the 32 buckets of
/// word i of the map.
struct Sweep {
  TableRef table;
  std::uint64_t word_count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, word_count, [&](std::uint64_t i) {
      for (std::uint32_t bits = table.has_deleted[i]; bits != 0; bits &= bits - 1) {
        const std::uint64_t bucket = i * 32 + static_cast<std::uint64_t>(exec::first_set(bits));
        sweep_bucket(table.pairs + bucket * kBucketPairs);
      }
      table.has_deleted[i] = 0;
    });
  }

 private:
  BRECCIA_HD static void sweep_bucket(Pair* pairs) {
    int kept = 0;
    for (int p = 0; p < kBucketPairs; ++p) {
      if (pairs[p].first != kDeleted) pairs[kept++] = pairs[p];
    }
    while (kept < kBucketPairs) pairs[kept++] = Pair{};
  }
};

/// Keys that groups bring into a table in a launch, and those that others are to leave alone.
/// Shape   a bit for each of so many intervals of words; all clear before the launch.
struct TakenRef {
  std::uint32_t* bits = nullptr;
  std::uint64_t count = 0;

  /// Whether the caller is the first one for keys of this interval, so that no key is inserted
  /// twice. The others come again when it has ended.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool is_first(const Group& group, std::uint64_t word) const {
    const std::uint64_t at = scaled(word, count);
    const std::uint32_t bit = 1U << at % 32;
    const std::uint32_t before =
        group.from(0, [&](int) { return exec::or_acq_rel_device(group, bits + at / 32, bit); });
    return (before & bit) == 0;
  }
};

/// The table as one group of the section moves keys in it.
///
/// A pair that moves is claimed: the group has it, and its slot holds kClaimed, with which others
/// do nothing. So the slot stays the group's, and each pair is in one slot or in one group's hands.
/// When the last pair of a way has found an empty slot, each slot of the way gets the pair before
/// it, and the first one the new pair. If it finds none, all go back to where they were. Nobody
/// waits for a slot: who meets one that is claimed takes another.
template <class Group>
class Mover {
 public:
  BRECCIA_HD Mover(const Group& group, const TableRef& table) : group_(group), table_(table) {}

  /// Finds a slot for an absent key that no other group inserts, and that found no room.
  /// Bound   kTurnsMax ways. In a table that is nearly full, or a small one at which others are,
  ///         there may be a way that it does not find.
  /// Cost    of a way of n moves: n + 1 buckets read, 2 n + 1 exchanges, 8 n words of was_full.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool insert(const Place& place, const Pair& pair) const {
    mark_full(place.first);
    for (std::uint32_t turn = 0; turn < kTurnsMax; ++turn) {
      if (make_way(turn % 2 == 0 ? place.first : place.second, turn, pair)) return true;
    }
    return false;
  }

 private:
  static constexpr std::uint32_t kTurnsMax = 32;
  static constexpr int kParts = kBucketPairs / Group::kWidth;

  /// What a lane sees of a bucket: slots lane, lane + W, ...
  struct Share {
    Pair pair[kParts];
  };
  struct Step {
    std::uint64_t slot = 0;
    Pair pair;
  };

  /// Puts a pair into a bucket, by a way of kMovesMax moves at most.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool make_way(std::uint64_t bucket, std::uint32_t turn, const Pair& pair) const {
    Step steps[kMovesMax];
    int count = 0;
    for (;;) {
      const std::uint64_t begin = bucket * kBucketPairs;
      const auto seen = group_.per_lane([&](int lane) { return share_of(begin, lane); });
      const auto slots_where = [&](const auto& holds) { return ballot_slots(seen, holds); };
      const exec::LaneMask empty = slots_where([](const Pair& one) { return one.first == kEmpty; });
      if (empty != 0) {
        const std::uint64_t slot = begin + static_cast<std::uint64_t>(exec::first_set(empty));
        // Another group that fills it is done with that: this one looks again.
        if (!exchange(slot, Pair{}, count == 0 ? pair : steps[count - 1].pair)) continue;
        while (--count >= 0) give(steps[count].slot, count == 0 ? pair : steps[count - 1].pair);
        return true;
      }
      mark_full(bucket);
      if (count == kMovesMax) break;
      const exec::LaneMask movable =
          slots_where([](const Pair& one) { return is_movable(one.first); });
      if (movable == 0) break;
      // Best is one whose other bucket was never full.
      const exec::LaneMask ample = slots_where([&](const Pair& one) {
        return is_movable(one.first) &&
               !is_marked(group_, table_.was_full, other_bucket(bucket, one.first));
      });
      const int choice = one_of(ample != 0 ? ample : movable, turn + static_cast<unsigned>(begin));
      Step* const step = steps + count;
      *step = {begin + static_cast<std::uint64_t>(choice), pair_of(seen, choice)};
      if (!exchange(step->slot, step->pair, Pair{kClaimed, 0})) break;
      ++count;
      bucket = other_bucket(bucket, step->pair.first);
    }
    while (--count >= 0) give(steps[count].slot, steps[count].pair);
    return false;
  }

  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD Share share_of(std::uint64_t begin, int lane) const {
    Share share;
    for (int part = 0; part < kParts; ++part) {
      share.pair[part] = exec::load_pair_device(
          group_, table_.pairs + begin + static_cast<std::uint64_t>(part * Group::kWidth + lane));
    }
    return share;
  }
  /// The slots of a bucket whose pair is so, a bit for each.
  BRECCIA_SINGLE_SOURCE
  template <class Shares, class Holds>
  BRECCIA_HD exec::LaneMask ballot_slots(const Shares& seen, const Holds& holds) const {
    exec::LaneMask slots = 0;
    for (int part = 0; part < kParts; ++part) {
      slots |= group_.ballot([&](int lane) { return holds(seen[lane].pair[part]); })
               << part * Group::kWidth;
    }
    return slots;
  }
  BRECCIA_SINGLE_SOURCE
  template <class Shares>
  BRECCIA_HD Pair pair_of(const Shares& seen, int slot) const {
    const auto of_lane = [&](int lane) {
      Pair pair;
      // No index that a lane computes: arrays of registers have none.
      for (int part = 0; part < kParts; ++part) {
        if (part == slot / Group::kWidth) pair = seen[lane].pair[part];
      }
      return pair;
    };
    return {group_.from(slot % Group::kWidth, [&](int lane) { return of_lane(lane).first; }),
            group_.from(slot % Group::kWidth, [&](int lane) { return of_lane(lane).second; })};
  }

  BRECCIA_HD static bool is_movable(std::uint64_t word) { return word >= kFirstWord; }
  /// The first bit of eight from one of them on, round and round.
  BRECCIA_HD static int one_of(exec::LaneMask mask, unsigned from) {
    const int begin = static_cast<int>(from % kBucketPairs);
    return (exec::first_set((mask | mask << kBucketPairs) >> begin) + begin) % kBucketPairs;
  }
  BRECCIA_HD std::uint64_t other_bucket(std::uint64_t bucket, std::uint64_t word) const {
    const Place place = place_of_word(table_, word);
    return bucket == place.first ? place.second : place.first;
  }
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void mark_full(std::uint64_t bucket) const {
    group_.each_lane([&](int lane) {
      if (lane == 0) mark_if_clear(group_, table_.was_full, bucket);
    });
  }

  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool exchange(std::uint64_t slot, const Pair& seen, const Pair& with) const {
    return group_.from(0, [&](int) {
      return exec::compare_exchange_pair_device(group_, table_.pairs + slot, seen, with) == seen;
    });
  }
  /// Fills a slot that the group has claimed.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void give(std::uint64_t slot, const Pair& with) const {
    const bool is_done = exchange(slot, Pair{kClaimed, 0}, with);
    BRECCIA_INVARIANT(is_done);
  }

  const Group& group_;
  const TableRef& table_;
};

/// Runs insertions of absent keys that found no room, and makes some.
/// Launch  group g runs request[g], over count * W items, in a section of its own.
/// Source  cuckoo hashing, Pagh and Rodler 2001; two choices of several slots, Dietzfelbinger and
///         Weidling 2007. Deviation: a way whose end is not found is taken back.
struct Displace {
  TableRef table;
  RequestsRef requests;
  const std::uint32_t* request;  // those of Overflow
  TakenRef taken;
  Overflow overflow;  // another one: those that found no room, or have to come again

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = request[first / Group::kWidth];
    const Place place = place_of(table, requests.key[i]);
    Code code = Code::kNoRoom;
    if (place.first != place.second && taken.is_first(group, place.word)) {
      const Mover<Group> mover(group, table);
      if (mover.insert(place, Pair{place.word, value_of(requests, i)})) code = Code::kAbsent;
    }
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      requests.code[i] = code;
      if (code != Code::kNoRoom) return;
      overflow.request[exec::add_relaxed_device(group, overflow.count, 1U)] =
          static_cast<std::uint32_t>(i);
    });
  }
};

}  // namespace breccia::hash::algo
