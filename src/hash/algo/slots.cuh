#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/algo/words.cuh"
#include "hash/refs.h"

/// One key in a table: where it is, or where it may go.
///
/// A slot goes from kEmpty to a word and on to kDeleted, and each step is one compare-exchange of
/// the whole pair. It becomes kEmpty again, or another word, in a section of its own only, while
/// nobody else is at the table (displace.cuh). Between two such sections slots fill up
/// and never come back, and three things follow:
/// - A key is not there twice. Two groups that insert one key both take the first empty slot of the
///   same sequence, first bucket, then second. Where one took a slot that the other passed over,
///   the other saw it in use by another key, which it then was for good.
/// - A value goes to the key it was meant for: its slot cannot have become another key's.
/// - Nobody waits: an exchange that fails is one that another group has done.

namespace breccia::hash::algo {

/// What one lane saw of its neighbours in a row.
struct LaneSight {
  int has = -1;    // which of them is the key; -1: none
  int empty = -1;  // the first empty one
  std::uint64_t value = 0;
};

/// Looks at W-th parts of a bucket, those of one lane. All of it is read before any is looked at.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD LaneSight look_as_lane(const Group& group, const Pair* pairs, std::uint64_t word) {
  constexpr int kCount = kBucketPairs / Group::kWidth;
  Pair pair[kCount];
  for (int i = 0; i < kCount; ++i) pair[i] = exec::load_pair_device(group, pairs + i);
  LaneSight sight;
  for (int i = kCount - 1; i >= 0; --i) {
    if (pair[i].first == kEmpty) sight.empty = i;
    if (pair[i].first == word) {
      sight.has = i;
      sight.value = pair[i].second;
    }
  }
  return sight;
}

/// What was seen of a key.
struct Sighting {
  std::uint64_t slot = 0;  // where it is; if it is absent: the first empty one of its sequence
  bool is_present = false;
  bool has_slot = false;    // absent, and `slot` is one
  bool in_second = false;   // absent, and `slot` is in the second bucket
  std::uint64_t value = 0;  // present
};

BRECCIA_HD inline bool may_be_in_second(const std::uint32_t word, std::uint64_t bucket) {
  return (word >> bucket % 32 & 1U) != 0;
}

/// Looks at a bucket: the key, or the first empty slot of it.
/// Cost    one load of 128 bytes, a vote or two, two shuffles.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void look_at(const Group& group, const TableRef& table, std::uint64_t bucket,
                        std::uint64_t word, Sighting* sighting) {
  constexpr int kCount = kBucketPairs / Group::kWidth;
  const std::uint64_t begin = bucket * kBucketPairs;
  const auto slot_of = [begin](int lane, int at) {
    return begin + static_cast<std::uint64_t>(lane * kCount + at);
  };
  const auto seen = group.per_lane(
      [&](int lane) { return look_as_lane(group, table.pairs + slot_of(lane, 0), word); });
  const exec::LaneMask has = group.ballot([&](int lane) { return seen[lane].has >= 0; });
  if (has != 0) {
    const int lane = exec::first_set(has);
    sighting->is_present = true;
    sighting->slot = slot_of(lane, group.from(lane, [&](int l) { return seen[l].has; }));
    sighting->value = group.from(lane, [&](int l) { return seen[l].value; });
    return;
  }
  if (sighting->has_slot) return;
  const exec::LaneMask empty = group.ballot([&](int lane) { return seen[lane].empty >= 0; });
  if (empty == 0) return;
  const int lane = exec::first_set(empty);
  sighting->has_slot = true;
  sighting->slot = slot_of(lane, group.from(lane, [&](int l) { return seen[l].empty; }));
}

/// Looks for a key in both of its buckets; in the second only if the first is full, or was once.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD Sighting look_for(const Group& group, const TableRef& table, const Place& place) {
  Sighting sighting;
  look_at(group, table, place.first, place.word, &sighting);
  if (sighting.is_present) return sighting;
  const std::uint32_t full = group.from(
      0, [&](int) { return exec::load_relaxed_device(group, table.was_full + place.first / 32); });
  // A slot that is empty now need not have been when the key came.
  if (sighting.has_slot && !may_be_in_second(full, place.first)) return sighting;
  const bool had_slot = sighting.has_slot;
  look_at(group, table, place.second, place.word, &sighting);
  sighting.in_second = !had_slot && sighting.has_slot;
  return sighting;
}

/// The same in a table that is grown out of, in what it still has.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD Sighting look_in_old(const Group& group, const GrowingRef& tables, const Place& place) {
  Sighting sighting;
  if (place.first >= tables.moved) {
    look_at(group, tables.old, place.first, place.word, &sighting);
    if (sighting.is_present) return sighting;
  }
  const std::uint32_t full = group.from(0, [&](int) {
    return exec::load_relaxed_device(group, tables.old.was_full + place.first / 32);
  });
  if (place.second >= tables.moved && may_be_in_second(full, place.first)) {
    look_at(group, tables.old, place.second, place.word, &sighting);
  }
  return sighting;
}

}  // namespace breccia::hash::algo
