#pragma once

#include <cstdint>

#include "exec/group.h"

/// Which requests of a lookup found nothing, as a list.

namespace breccia::hash::algo {

/// Item i: number[i] becomes i, and flag[i] says whether found[i] is 0.
struct FlagMissing {
  const std::uint8_t* found;
  std::uint32_t* number;
  std::uint8_t* flag;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      number[i] = static_cast<std::uint32_t>(i);
      flag[i] = found[i] == 0 ? 1 : 0;
    });
  }
};

/// Item i: list[i] becomes number[i]; item 0 also says how many there are.
/// Shape   number[count], list[count]; one item, if there are none.
struct StoreMissing {
  const std::uint32_t* number;
  std::uint64_t count;
  std::uint32_t* list;
  std::uint64_t* list_count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count == 0 ? 1 : count, [&](std::uint64_t i) {
      if (i == 0) *list_count = count;
      if (i < count) list[i] = number[i];
    });
  }
};

}  // namespace breccia::hash::algo
