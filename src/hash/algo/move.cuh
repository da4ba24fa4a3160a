#pragma once

#include <cstdint>

#include "hash/algo/words.cuh"

namespace breccia::hash::algo {

/// Makes columns of the pairs in some slots, in no order: what a growing table moves next.
/// Shape   key, value: as many as slots; for keys in rows `key` is their words (MovedKeys).
/// Launch  item i: slot begin + i, over `slots`, in a section of its own.
template <class Keys>
struct Extract {
  TableRef table;
  exec::Unpermute back;
  std::uint64_t begin;
  std::uint64_t slots;
  std::uint64_t* key;
  std::uint64_t* value;
  std::uint64_t* count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, slots, [&](std::uint64_t i) {
      const std::uint64_t slot = begin + i;
      const Pair pair = table.pairs[slot];
      if (pair.first == kEmpty || pair.first == kDeleted) return;
      const std::uint64_t at = exec::add_relaxed_device(group, count, 1U);
      if constexpr (Keys::kInSlots) {
        key[at] = key_of(table, back, slot / kBucketPairs, pair.first);
      } else {
        key[at] = pair.first;
      }
      value[at] = pair.second;
    });
  }
};

}  // namespace breccia::hash::algo
