#pragma once

#include <cstdint>

#include "residency/place.h"
#include "sst/algo/entries.cuh"
#include "sst/format.h"

namespace breccia::residency::algo {

/// place[i]: where entry i's value lies in the file, or that it is a deletion.
/// Shape   data: what stands in the file from `offset` on, in the executor's memory.
struct PlaceValues {
  sst::algo::EntriesRef entries;
  const char* data;
  std::uint64_t offset;
  std::uint64_t* place;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, entries.keys.count, [&](std::uint64_t i) {
      const auto type = static_cast<sst::EntryType>(entries.tag[i] & 0xFF);
      const auto at = static_cast<std::uint64_t>(entries.value[i] - data);
      place[i] =
          type == sst::EntryType::kValue ? place_of(offset + at, entries.value_bytes[i]) : kDeleted;
    });
  }
};

}  // namespace breccia::residency::algo
