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
/// and never come back, and four things follow:
/// - A key is not there twice. Two groups that insert one key both take the first empty slot of the
///   same sequence, first bucket, then second. Where one took a slot that the other passed over,
///   the other saw it in use by another key, which it then was for good.
/// - A value goes to the key it was meant for: its slot cannot have become another key's.
/// - No key lies behind an empty slot of its bucket: whoever took a slot saw those before it in
/// use.
///   What empties slots, a section, moves the pairs behind them to the front.
/// - Nobody waits: an exchange that fails is one that another group has done.

namespace breccia::hash::algo {

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

/// Looks at a bucket: the key, or the first empty slot of it. W slots at a time, and no further
/// than to an empty one: there is nothing behind it.
/// Cost    with four lanes a load of 64 bytes or two, a vote or two after each, two shuffles.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void look_at(const Group& group, const TableRef& table, std::uint64_t bucket,
                        std::uint64_t word, Sighting* sighting) {
  constexpr int kWidth = Group::kWidth;
  for (int part = 0; part < kBucketPairs; part += kWidth) {
    const std::uint64_t begin = bucket * kBucketPairs + static_cast<std::uint64_t>(part);
    const auto seen = group.per_lane(
        [&](int lane) { return exec::load_pair_device(group, table.pairs + begin + lane); });
    const exec::LaneMask has = group.ballot([&](int lane) { return seen[lane].first == word; });
    if (has != 0) {
      const int lane = exec::first_set(has);
      sighting->is_present = true;
      sighting->slot = begin + static_cast<std::uint64_t>(lane);
      sighting->value = group.from(lane, [&](int l) { return seen[l].second; });
      return;
    }
    const exec::LaneMask empty = group.ballot([&](int lane) { return seen[lane].first == kEmpty; });
    if (empty == 0) continue;
    if (!sighting->has_slot) {
      sighting->has_slot = true;
      sighting->slot = begin + static_cast<std::uint64_t>(exec::first_set(empty));
    }
    return;
  }
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
