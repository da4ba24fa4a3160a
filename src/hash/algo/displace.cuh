#pragma once

#include <cstdint>

#include "base/assert.h"
#include "hash/algo/run.cuh"

/// What happens at a table while nobody else is there: slots of deleted keys become empty, and keys
/// move to their other bucket for those that found both of theirs full.

namespace breccia::hash::algo {

/// The longest way on which keys make room for one.
inline constexpr int kMovesMax = 3;

/// Empties the slots of deleted keys. Item i: the 32 buckets of word i of the map.
struct Sweep {
  TableRef table;
  std::uint64_t word_count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, word_count, [&](std::uint64_t i) {
      for (std::uint32_t bits = table.has_deleted[i]; bits != 0; bits &= bits - 1) {
        const std::uint64_t bucket = i * 32 + static_cast<std::uint64_t>(exec::first_set(bits));
        Pair* const pairs = table.pairs + bucket * kBucketPairs;
        for (int p = 0; p < kBucketPairs; ++p) {
          if (pairs[p].first == kDeleted) pairs[p] = Pair{};
        }
      }
      table.has_deleted[i] = 0;
    });
  }
};

/// A bit a bucket: who inserts and moves the keys whose first bucket it is.
class Locks {
 public:
  BRECCIA_HD explicit Locks(std::uint32_t* words) : words_(words) {}

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool try_take(const Group& group, std::uint64_t bucket) const {
    const std::uint32_t bit = 1U << bucket % 32;
    const std::uint32_t before = group.from(
        0, [&](int) { return exec::or_acq_rel_device(group, words_ + bucket / 32, bit); });
    return (before & bit) == 0;
  }
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void give(const Group& group, std::uint64_t bucket) const {
    (void)group.from(0, [&](int) {
      return exec::and_acq_rel_device(group, words_ + bucket / 32, ~(1U << bucket % 32));
    });
  }

 private:
  std::uint32_t* words_;
};

/// What a group is about: locks that it has, and slots whose pairs are on their way.
struct Way {
  std::uint64_t locked[kMovesMax + 1] = {};
  int locked_count = 0;
  std::uint64_t slot[kMovesMax + 1] = {};
  int slot_count = 0;

  BRECCIA_HD bool has_locked(std::uint64_t bucket) const {
    for (int i = 0; i < locked_count; ++i) {
      if (locked[i] == bucket) return true;
    }
    return false;
  }
  BRECCIA_HD bool leads_over(std::uint64_t at) const {
    for (int i = 0; i < slot_count; ++i) {
      if (slot[i] == at) return true;
    }
    return false;
  }
};

/// The table as one group of the section moves keys in it.
template <class Group>
class Mover {
 public:
  BRECCIA_HD Mover(const Group& group, const TableRef& table, const Locks& locks)
      : group_(group), table_(table), locks_(locks) {}

  /// Finds a slot for an absent key, by the shortest way. The caller has the lock of its first
  /// bucket.
  /// Bound   of ways that others have locked it tries none, and comes again a few times.
  /// Cost    a bucket read for each way: 16, then 128, then 1,024.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool insert(const Place& place, const Pair& pair) {
    way_.locked[way_.locked_count++] = place.first;
    for (int turn = 0; turn < kTurnsMax; ++turn) {
      met_lock_ = false;
      if (insert_with<1>(place, pair)) return true;
      if (!met_lock_) return false;
    }
    return false;
  }

 private:
  static constexpr int kTurnsMax = 4;

  BRECCIA_SINGLE_SOURCE
  template <int kMoves>
  BRECCIA_HD bool insert_with(const Place& place, const Pair& pair) {
    if (put_into<kMoves>(place.first, pair)) return true;
    mark(group_, table_.was_full, place.first);
    if (put_into<kMoves>(place.second, pair)) return true;
    if constexpr (kMoves < kMovesMax) {
      return insert_with<kMoves + 1>(place, pair);
    } else {
      return false;
    }
  }

  /// Puts a pair into a bucket: into an empty slot, if it may move nothing.
  BRECCIA_SINGLE_SOURCE
  template <int kMoves>
  BRECCIA_HD bool put_into(std::uint64_t bucket, const Pair& pair) {
    if constexpr (kMoves == 0) {
      Sighting sighting;
      look_at(group_, table_, bucket, pair.first, &sighting);
      return sighting.has_slot && exchange(sighting.slot, Pair{}, pair);
    } else {
      for (std::uint64_t i = 0; i < kBucketPairs; ++i) {
        if (replace<kMoves>(bucket * kBucketPairs + i, pair)) return true;
      }
      return false;
    }
  }

  /// Puts a pair into a slot. What is there is copied to its other bucket before.
  BRECCIA_SINGLE_SOURCE
  template <int kMoves>
  BRECCIA_HD bool replace(std::uint64_t slot, const Pair& with) {
    const Pair seen = load(slot);
    if (seen.first == kEmpty) return exchange(slot, seen, with);
    if (seen.first == kDeleted || way_.leads_over(slot)) return false;
    const Place place = place_of_word(table_, seen.first);
    const bool is_ours = way_.has_locked(place.first);
    if (!is_ours && !locks_.try_take(group_, place.first)) {
      met_lock_ = true;
      return false;
    }
    if (!is_ours) way_.locked[way_.locked_count++] = place.first;
    way_.slot[way_.slot_count++] = slot;
    // Before it was locked it may have gone.
    bool is_done = load(slot) == seen && copy_to_other<kMoves>(slot, place, seen);
    if (is_done) {
      is_done = exchange(slot, seen, with);
      BRECCIA_INVARIANT(is_done);
    }
    --way_.slot_count;
    if (!is_ours) {
      --way_.locked_count;
      locks_.give(group_, place.first);
    }
    return is_done;
  }

  BRECCIA_SINGLE_SOURCE
  template <int kMoves>
  BRECCIA_HD bool copy_to_other(std::uint64_t slot, const Place& place, const Pair& pair) {
    const bool is_in_first = slot / kBucketPairs == place.first;
    if (is_in_first) mark(group_, table_.was_full, place.first);
    return put_into<kMoves - 1>(is_in_first ? place.second : place.first, pair);
  }

  /// One lane reads, so that all have the same.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD Pair load(std::uint64_t slot) const {
    const auto seen = group_.per_lane([&](int lane) {
      return lane == 0 ? exec::load_pair_device(group_, table_.pairs + slot) : Pair{};
    });
    return {group_.from(0, [&](int lane) { return seen[lane].first; }),
            group_.from(0, [&](int lane) { return seen[lane].second; })};
  }
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool exchange(std::uint64_t slot, const Pair& seen, const Pair& with) const {
    return group_.from(0, [&](int) {
      return exec::compare_exchange_pair_device(group_, table_.pairs + slot, seen, with) == seen;
    });
  }

  const Group& group_;
  const TableRef& table_;
  const Locks& locks_;
  Way way_;
  bool met_lock_ = false;
};

/// Runs insertions that found no room, and makes some. A key moves by a copy to its other bucket
/// and then by what takes its old place; of a way with several moves the last comes first. So every
/// key is there at every moment, once or twice.
///
/// Only who has the lock of a key's first bucket inserts or moves it, so there are never two copies
/// that stay. Who has a lock only tries to take another, so nobody waits in a circle.
/// Launch  group g runs request[g], over count * W items, in a section of its own.
/// Source  cuckoo hashing, Pagh and Rodler 2001. Deviation: all short ways before longer ones.
template <bool kGrows>
struct Displace {
  GrowingRef tables;
  RequestsRef requests;
  const std::uint32_t* request;  // those of Overflow
  std::uint32_t* locks;          // [bucket_count / 32 + 1] of tables.table, all clear
  Overflow overflow;             // another one

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = request[first / Group::kWidth];
    const Place place = place_of(tables.table, requests.key[i]);
    const Locks all(locks);
    while (!all.try_take(group, place.first)) {
    }
    std::uint64_t found = 0;
    Code code = run_one<kGrows>(group, tables, operation_of(requests, i), requests.key[i],
                                value_of(requests, i), &found);
    if (code == Code::kNoRoom && place.first != place.second) {
      Mover<Group> mover(group, tables.table, all);
      if (mover.insert(place, Pair{place.word, value_of(requests, i)})) code = Code::kAbsent;
    }
    all.give(group, place.first);
    group.each_lane([&](int lane) {
      if (lane == 0) store_or_pass_on(group, requests, i, code, found, overflow);
    });
  }
};

}  // namespace breccia::hash::algo
