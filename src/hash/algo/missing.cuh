#pragma once

#include <cstdint>

#include "exec/group.h"

/// Which requests of a lookup found nothing, as a list.

namespace breccia::hash::algo {

/// Item i: number[i] becomes i, and flag[i] says whether found[i] is 0 and i below *asked, if that
/// is not null.
struct FlagMissing {
  const std::uint8_t* found;
  std::uint32_t* number;
  std::uint8_t* flag;
  std::uint64_t count;
  const std::uint64_t* asked;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t n = asked == nullptr ? count : *asked;
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      number[i] = static_cast<std::uint32_t>(i);
      flag[i] = i < n && found[i] == 0 ? 1 : 0;
    });
  }
};

/// Item i: list[i] becomes number[i], if there are so many; item 0 also says how many there are.
/// Shape   number[requests] and list[requests], *count of them; one item, if there are no requests.
struct StoreMissing {
  const std::uint32_t* number;
  const std::uint64_t* count;
  std::uint64_t requests;
  std::uint32_t* list;
  std::uint64_t* list_count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t listed = *count;
    BRECCIA_INVARIANT(listed <= requests);
    exec::each_item(group, first, requests == 0 ? 1 : requests, [&](std::uint64_t i) {
      if (i == 0) *list_count = listed;
      if (i < listed) list[i] = number[i];
    });
  }
};

}  // namespace breccia::hash::algo
