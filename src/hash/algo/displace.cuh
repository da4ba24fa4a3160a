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
      std::uint32_t with_room = 0;
      for (std::uint32_t bits = table.has_deleted[i]; bits != 0; bits &= bits - 1) {
        const int bit = exec::first_set(bits);
        const std::uint64_t bucket = i * 32 + static_cast<std::uint64_t>(bit);
        if (sweep_bucket(table.pairs + bucket * kBucketPairs)) with_room |= 1U << bit;
      }
      table.is_full[i] &= ~with_room;
      table.has_deleted[i] = 0;
    });
  }

 private:
  /// Whether it has an empty slot then: none where a deletion marked it and came too late.
  BRECCIA_HD static bool sweep_bucket(Pair* pairs) {
    int kept = 0;
    for (int p = 0; p < kBucketPairs; ++p) {
      if (pairs[p].first != kDeleted) pairs[kept++] = pairs[p];
    }
    while (kept < kBucketPairs) pairs[kept++] = Pair{};
    return pairs[kBucketPairs - 1].first == kEmpty;
  }
};

/// Keys that groups bring into a table in a launch, and those that others are to leave alone.
/// Shape   a word of bits for each of so many intervals of words; all clear before the launch.
struct TakenRef {
  std::uint64_t* bits = nullptr;
  std::uint64_t count = 0;  // of intervals

  /// Takes a key. Lane 0 learns which bits of its interval were set before.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD auto take(const Group& group, std::uint64_t word) const {
    return group.per_lane([&](int lane) {
      if (lane != 0) return std::uint64_t{0};
      return exec::or_relaxed_device(group, bits + exec::scaled(word, count), bits_of(word));
    });
  }
  /// Whether one of its bits was clear. Of several that take one key that is so for one at most;
  /// for none where other keys have set all of them. Who is not the first comes again when those
  /// that are have ended, so that no key is inserted twice.
  BRECCIA_SINGLE_SOURCE
  template <class Group, class Before>
  BRECCIA_HD static bool is_first(const Group& group, std::uint64_t word, const Before& before) {
    const std::uint64_t own = bits_of(word);
    return group.ballot([&](int lane) { return lane == 0 && (before[lane] & own) != own; }) != 0;
  }

 private:
  /// Four bits that are set at once. Interval and buckets go by a word's upper bits.
  BRECCIA_HD static std::uint64_t bits_of(std::uint64_t word) {
    const std::uint64_t one = 1;
    return one << word % 64 | one << (word >> 6) % 64 | one << (word >> 12) % 64 |
           one << (word >> 18) % 64;
  }
};

/// The table as one group of the section moves keys in it.
///
/// A pair that moves is claimed: the group has it, and its slot holds kClaimed, with which others
/// do nothing. So the slot stays the group's, and each pair is in one slot or in one group's hands.
/// When the last pair of a way has found an empty slot, each slot of the way gets the pair before
/// it, and the first one the new pair. If it finds none, all go back to where they were. Nobody
/// waits for a slot: who meets one that is claimed takes another.
///
/// What is in a group's hands is in the registers of one lane, its holder, which alone exchanges
/// it. The others are told of slots and buckets only.
template <class Group>
class Mover {
 public:
  BRECCIA_HD Mover(const Group& group, const TableRef& table) : group_(group), table_(table) {}

  /// The pairs of a bucket; a lane's are those in the slots lane, lane + W, ...
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD auto read(std::uint64_t bucket) const {
    return group_.per_lane([&](int lane) {
      Share share;
      for (int part = 0; part < kParts; ++part) {
        share.pair[part] = exec::load_pair_device(
            group_, table_.pairs + slot_of(bucket, part * Group::kWidth + lane));
      }
      return share;
    });
  }

  /// Finds a slot for an absent key that no other group inserts, and that found no room, if one
  /// move to a bucket with an empty slot makes one. Both buckets are looked at before anything is
  /// done, so that groups that run in step stay so.
  /// Shape   seen: read(place.first)
  /// Cost    2 or 3 buckets read; 3 exchanges or stores; 8 or 16 words of is_full.
  BRECCIA_SINGLE_SOURCE
  template <class Shares>
  BRECCIA_HD bool insert_near(const Place& place, const Pair& pair, const Shares& seen) const {
    const auto held = group_.per_lane([&](int) { return pair; });
    const auto salt = static_cast<unsigned>(place.word);
    std::uint64_t bucket = place.first;
    auto choice = choose(bucket, seen, salt, /*needs_room=*/true);
    exec::LaneMask able = lanes_with(choice);
    if (able == 0) {
      mark_first(place);
      bucket = place.second;
      choice = choose(bucket, read(bucket), salt, /*needs_room=*/true);
      able = lanes_with(choice);
    }
    return able != 0 && exchange_for<1>(bucket, choice, one_of(able, salt / kParts), salt, held, 0);
  }

  /// The same by longer ways.
  /// Bound   kTurnsMax ways. In a table that is nearly full, or a small one at which others are,
  ///         there may be a way that it does not find.
  /// Cost    of a way of n moves: n + 1 buckets read, 2 n + 1 exchanges or stores, 8 n words of
  ///         is_full.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool insert_far(const Place& place, const Pair& pair) const {
    const auto held = group_.per_lane([&](int) { return pair; });
    mark_first(place);
    for (std::uint32_t turn = 0; turn < kTurnsMax; ++turn) {
      const std::uint64_t bucket = turn % 2 == 0 ? place.first : place.second;
      const auto salt = static_cast<unsigned>(place.word) + turn / 2;
      if (put<kMovesMax>(bucket, read(bucket), salt, held, 0)) return true;
    }
    return false;
  }

 private:
  static constexpr std::uint32_t kTurnsMax = 32;
  static constexpr int kParts = kBucketPairs / Group::kWidth;

  struct Share {
    Pair pair[kParts];
  };
  /// What a lane would move out of a bucket.
  struct Choice {
    int part = -1;  // of its share; -1: nothing
    Pair pair;
    std::uint64_t target = 0;  // its other bucket
  };

  /// Puts the holder's pair into a bucket that was seen so, by a way of kMoves moves at most. False
  /// also where another group was faster, which is done with it then. A call for each move, so that
  /// what is in the group's hands stays in registers.
  BRECCIA_SINGLE_SOURCE
  template <int kMoves, class Shares, class Pairs>
  BRECCIA_HD bool put(std::uint64_t bucket, const Shares& seen, unsigned salt, const Pairs& held,
                      int holder) const {
    exec::LaneMask empty = 0;
    for (int part = 0; part < kParts; ++part) {
      empty |= group_.ballot([&](int lane) { return seen[lane].pair[part].first == kEmpty; })
               << part * Group::kWidth;
    }
    if (empty != 0) {
      const std::uint64_t slot = slot_of(bucket, exec::first_set(empty));
      return group_.ballot([&](int lane) { return lane == holder && fill(slot, held[lane]); }) != 0;
    }
    if constexpr (kMoves == 0) {
      return false;
    } else {
      // Best is one whose other bucket has an empty slot. The last one of a way needs that.
      auto choice = choose(bucket, seen, salt, /*needs_room=*/true);
      exec::LaneMask able = lanes_with(choice);
      if (kMoves > 1 && able == 0) {
        choice = choose(bucket, seen, salt, /*needs_room=*/false);
        able = lanes_with(choice);
      }
      return able != 0 &&
             exchange_for<kMoves>(bucket, choice, one_of(able, salt / kParts), salt, held, holder);
    }
  }

  /// The same in a bucket that is full: the mover's choice moves on.
  BRECCIA_SINGLE_SOURCE
  template <int kMoves, class Choices, class Pairs>
  BRECCIA_HD bool exchange_for(std::uint64_t bucket, const Choices& choice, int mover,
                               unsigned salt, const Pairs& held, int holder) const {
    const std::uint64_t target = group_.from(mover, [&](int lane) { return choice[lane].target; });
    const auto slot_at = [&](int lane) {
      return slot_of(bucket, choice[lane].part * Group::kWidth + lane);
    };
    // The next bucket is read while the pair is claimed: neither waits for the other.
    const auto ahead = read(target);
    const exec::LaneMask claimed = group_.ballot(
        [&](int lane) { return lane == mover && claim(bucket, slot_at(lane), choice[lane].pair); });
    if (claimed == 0) return false;
    const auto moved = group_.per_lane([&](int lane) { return choice[lane].pair; });
    const bool is_placed = put<kMoves - 1>(target, ahead, salt, moved, mover);
    const std::uint64_t slot = group_.from(mover, slot_at);
    group_.each_lane([&](int lane) {
      if (lane == (is_placed ? holder : mover)) give(slot, is_placed ? held[lane] : moved[lane]);
    });
    return is_placed;
  }

  /// What each lane would move.
  BRECCIA_SINGLE_SOURCE
  template <class Shares>
  BRECCIA_HD auto choose(std::uint64_t bucket, const Shares& seen, unsigned salt,
                         bool needs_room) const {
    return group_.per_lane([&](int lane) {
      std::uint64_t target[kParts];
      bool is_able[kParts];
      for (int part = 0; part < kParts; ++part) {
        const std::uint64_t word = seen[lane].pair[part].first;
        target[part] = other_bucket(bucket, word);
        is_able[part] =
            is_movable(word) && (!needs_room || !is_marked(group_, table_.is_full, target[part]));
      }
      // The first one from `salt` on, round and round; no index is computed, as arrays of registers
      // have none.
      Choice choice;
      int rank = kParts;
      for (int part = 0; part < kParts; ++part) {
        const int own = static_cast<int>((static_cast<unsigned>(part) + salt) % kParts);
        if (!is_able[part] || own >= rank) continue;
        rank = own;
        choice = {part, seen[lane].pair[part], target[part]};
      }
      return choice;
    });
  }

  template <class Choices>
  BRECCIA_HD exec::LaneMask lanes_with(const Choices& choice) const {
    return group_.ballot([&](int lane) { return choice[lane].part >= 0; });
  }

  BRECCIA_HD static std::uint64_t slot_of(std::uint64_t bucket, int at) {
    return bucket * kBucketPairs + static_cast<std::uint64_t>(at);
  }
  BRECCIA_HD static bool is_movable(std::uint64_t word) { return word >= kFirstWord; }
  /// The first of some lanes from one on, round and round.
  BRECCIA_HD static int one_of(exec::LaneMask lanes, unsigned from) {
    const exec::LaneMask behind = lanes & exec::full_mask(Group::kWidth) << from % Group::kWidth;
    return exec::first_set(behind != 0 ? behind : lanes);
  }
  BRECCIA_HD std::uint64_t first_bucket(std::uint64_t word) const {
    return exec::scaled(word, table_.bucket_count);
  }
  BRECCIA_HD std::uint64_t other_bucket(std::uint64_t bucket, std::uint64_t word) const {
    const std::uint64_t first = first_bucket(word);
    return bucket == first ? second_bucket(table_, word, first) : first;
  }
  /// The new key may come to its second bucket.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void mark_first(const Place& place) const {
    group_.each_lane([&](int lane) {
      if (lane == 0) mark(group_, table_.was_full, place.first);
    });
  }

  /// Puts a pair into an empty slot. False: it is not empty any more. Called by one lane.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool fill(std::uint64_t slot, const Pair& with) const {
    note_fill(group_, table_, slot);
    return exchange(slot, Pair{}, with);
  }
  /// Takes a pair into the group's hands. False: it is in another's, or elsewhere. Called by one
  /// lane.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool claim(std::uint64_t bucket, std::uint64_t slot, const Pair& pair) const {
    if (first_bucket(pair.first) == bucket) mark(group_, table_.was_full, bucket);
    return exchange(slot, pair, Pair{kClaimed, 0});
  }
  /// Fills a slot that the group has claimed. Called by one lane.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void give(std::uint64_t slot, const Pair& with) const {
    BRECCIA_INVARIANT(table_.pairs[slot].first == kClaimed);
    exec::store_pair_device(group_, table_.pairs + slot, with);
  }
  /// Called by one lane.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool exchange(std::uint64_t slot, const Pair& seen, const Pair& with) const {
    return exec::compare_exchange_pair_device(group_, table_.pairs + slot, seen, with) == seen;
  }

  const Group& group_;
  const TableRef& table_;
};

/// Requests in so many parts that those who add to them seldom meet at one counter.
/// Shape   request[kParts * part_size], count[kParts * kStride], clear at first; group g adds to
///         part g % kParts, which has room for all groups of it.
struct Parted {
  static constexpr std::uint64_t kParts = 64;
  static constexpr std::uint64_t kStride = 16;  // words: no two counters in a line

  std::uint32_t* request = nullptr;
  std::uint64_t* count = nullptr;
  std::uint64_t part_size = 0;

  static std::uint64_t part_size_for(std::uint64_t groups) {
    return (groups + kParts - 1) / kParts;
  }

  /// Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void add(const Group& group, std::uint64_t g, std::uint32_t i) const {
    const std::uint64_t part = g % kParts;
    const std::uint64_t at = exec::add_relaxed_device(group, count + part * kStride, 1U);
    request[part * part_size + at] = i;
  }
};

/// Insertions of absent keys that found no room: makes some by one move, which is enough for most,
/// and no group is long about it.
/// Launch  group g runs request[g], over count * W items, in a section of its own. DisplaceFar
///         comes behind.
/// Source  cuckoo hashing, Pagh and Rodler 2001; two choices of several slots, Dietzfelbinger and
///         Weidling 2007. Deviation: a way whose end is not found is taken back.
template <class Keys>
struct DisplaceNear {
  static constexpr int kBlockThreads = 128;
  template <int W>
  static constexpr int kBlocksMin = W > 1 && Keys::kInSlots ? 12 : 0;

  TableRef table;
  RequestsRef requests;
  const std::uint32_t* request;  // those of Overflow
  TakenRef taken;
  Parted far;      // those that need more
  Overflow again;  // those that have to come again; and those that no way is found for
  Keys keys;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t g = first / Group::kWidth;
    const std::uint32_t i = request[g];
    const Place place = keys.of(group, table.secret, requests, i).place(table);
    const Mover<Group> mover(group, table);
    const auto before = taken.take(group, place.word);
    const auto seen = mover.read(place.first);
    const Pair pair{place.word, value_of(requests, i)};
    const bool is_able =
        TakenRef::is_first(group, place.word, before) && place.first != place.second;
    const bool is_done = is_able && mover.insert_near(place, pair, seen);
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      if (is_done) {
        requests.code[i] = Code::kAbsent;
      } else if (is_able) {
        far.add(group, g, i);
      } else {
        again.add(group, i);
      }
    });
  }
};

/// The others, by longer ways.
/// Launch  group g runs far.request[g / kParts], and each stride-th one behind it, of its part;
///         over stride * kParts * W items.
template <class Keys>
struct DisplaceFar {
  static constexpr int kBlockThreads = 128;

  DisplaceNear<Keys> near;
  std::uint64_t stride;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t g = first / Group::kWidth;
    const std::uint64_t part = g % Parted::kParts;
    const std::uint64_t count = near.far.count[part * Parted::kStride];
    for (std::uint64_t at = g / Parted::kParts; at < count; at += stride) {
      const std::uint32_t i = near.far.request[part * near.far.part_size + at];
      const Place place =
          near.keys.of(group, near.table.secret, near.requests, i).place(near.table);
      const Mover<Group> mover(group, near.table);
      const bool is_done = mover.insert_far(place, Pair{place.word, value_of(near.requests, i)});
      group.each_lane([&](int lane) {
        if (lane != 0) return;
        if (is_done) {
          near.requests.code[i] = Code::kAbsent;
        } else {
          near.again.add(group, i);
        }
      });
    }
  }
};

}  // namespace breccia::hash::algo
