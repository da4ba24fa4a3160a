#pragma once

#include <cstdint>

#include "residency/place.h"
#include "sst/algo/entries.cuh"
#include "sst/format.h"

namespace breccia::residency::algo {

/// place[i]: where entry i's value lies in the file, or would: a deletion has none. Of merge
/// operands and other kinds only RocksDB knows what they say.
/// Shape   data: what stands in the file from `offset` on, in the executor's memory; or contents of
///         blocks that were packed: block_at[blocks] says where each of them begins in it,
///         ascending from 0. Without, blocks == 0.
struct PlaceValues {
  sst::algo::EntriesRef entries;
  const char* data;
  std::uint64_t offset;
  const std::uint64_t* block_at;
  std::uint64_t blocks;
  std::uint64_t* place;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, entries.keys.count, [&](std::uint64_t i) {
      const auto type = static_cast<sst::EntryType>(entries.tag[i] & 0xFF);
      const auto at = static_cast<std::uint64_t>(entries.value[i] - data);
      const bool is_value = type == sst::EntryType::kValue;
      const std::uint64_t own = place_at(at, is_value ? entries.value_bytes[i] : 0);
      place[i] = is_value ? own : sst::is_deletion(type) ? as_deletion(own) : kAsk;
    });
  }

 private:
  BRECCIA_HD std::uint64_t place_at(std::uint64_t at, std::uint64_t bytes) const {
    if (blocks == 0) return place_of(offset + at, bytes);
    std::uint64_t block = 0;  // the last one that begins at `at` or before
    for (std::uint64_t end = blocks; end - block > 1;) {
      const std::uint64_t middle = block + (end - block) / 2;
      (block_at[middle] <= at ? block : end) = middle;
    }
    return packed_place(block, at - block_at[block], bytes);
  }
};

}  // namespace breccia::residency::algo
