#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"
#include "slab/algo/chain.cuh"

/// Heads change places: hot ones come into the reserve, cold ones go back to the host's memory.
/// While nobody else is at the table.

namespace breccia::slab::algo {

/// note[i]: head i lies in the reserve's slab i.
struct TakeFirst {
  std::uint64_t* note;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t i) { note[i] = HeadNote::of(i, 0).word(); });
  }
};

/// Counts how hot heads are, each `step`th of them.
/// Shape   own[kHeats], up[kHeats]: heads in the host's memory and in the reserve that were counted
///         so often; the last one of all that were more. Nobody counts the cold, which are most.
inline constexpr std::uint64_t kHeats = 1024;
struct CountHeats {
  const std::uint64_t* note;
  std::uint64_t count;
  std::uint64_t step;
  std::uint64_t* own;
  std::uint64_t* up;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count / step, [&](std::uint64_t item) {
      const HeadNote seen(note[item * step]);
      if (seen.heat() == 0) return;
      const std::uint64_t bin = seen.heat() < kHeats ? seen.heat() : kHeats - 1;
      exec::add_relaxed_device(group, (seen.is_up() ? up : own) + bin, 1U);
    });
  }
};

/// Lists heads of the host's memory that are as hot as `hot`, and of the reserve those that are not
/// half so hot; all become cooler.
/// Shape   rising[max], falling[max]: numbers of notes, in no order. *risings, *fallings: how many
///         there are, of which max are listed.
struct ListMoving {
  std::uint64_t* note;
  std::uint64_t count;
  std::uint64_t hot;
  std::uint64_t max;
  std::uint32_t* rising;
  std::uint32_t* falling;
  std::uint64_t* risings;
  std::uint64_t* fallings;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      const HeadNote seen(note[i]);
      note[i] = seen.cooler().word();
      if (!seen.is_up() && seen.heat() >= hot) add(group, rising, risings, i);
      if (seen.is_up() && 2 * seen.heat() < hot) add(group, falling, fallings, i);
    });
  }

 private:
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void add(const Group& group, std::uint32_t* list, std::uint64_t* count_of,
                      std::uint64_t i) const {
    const std::uint64_t at = exec::add_relaxed_device(group, count_of, 1U);
    if (at < max) list[at] = static_cast<std::uint32_t>(i);
  }
};

/// Heads change places in pairs: falling[p] goes to its own slab, rising[p] to where that one was.
/// Launch  over count * W items, a group for each pair.
struct ChangePlaces {
  static constexpr int kBlockThreads = 128;

  TableRef table;
  const std::uint32_t* rising;
  const std::uint32_t* falling;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t pair = first / Group::kWidth;
    const std::uint64_t up = rising[pair];
    const std::uint64_t down = falling[pair];
    std::uint64_t* const note = table.reserve.note;
    // Known to all before one of them changes it.
    const std::uint64_t place = HeadNote(group.from(0, [&](int) { return note[down]; })).place();
    Slab* const shared = table.reserve.slab + place;
    Slab* const from = table.heads.at(table.reserve.first + up);
    Slab* const to = table.heads.at(table.reserve.first + down);
    group.each_lane([&](int lane) {
      // Each word by one lane, which has read it before it is overwritten.
      for (int w = lane; w < kSlabWords; w += Group::kWidth) {
        to->key[w] = shared->key[w];
        to->value[w] = shared->value[w];
        shared->key[w] = from->key[w];
        shared->value[w] = from->value[w];
      }
    });
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      note[down] = HeadNote(note[down]).without_place().word();
      note[up] = HeadNote(note[up]).with_place(place).word();
    });
  }
};

}  // namespace breccia::slab::algo
