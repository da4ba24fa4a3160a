#pragma once

#include <cstdint>

#include "hash/algo/slots.cuh"

/// Requests on a table, any number of batches at once.

namespace breccia::hash::algo {

BRECCIA_HD inline Operation operation_of(const RequestsRef& requests, std::uint64_t i) {
  return requests.operation == nullptr ? requests.all : requests.operation[i];
}

BRECCIA_HD inline std::uint64_t value_of(const RequestsRef& requests, std::uint64_t i) {
  return requests.value == nullptr ? 0 : requests.value[i];
}

BRECCIA_HD inline bool inserts(Operation operation) {
  return operation == Operation::kInsert || operation == Operation::kUpsert ||
         operation == Operation::kRaise;
}

/// Answers request i. Called by one lane.
BRECCIA_HD inline void answer(const RequestsRef& requests, std::uint64_t i, Code code,
                              std::uint64_t found) {
  requests.code[i] = code;
  if (requests.found != nullptr) requests.found[i] = found;
}

/// Puts an absent key into a slot that was seen empty. False: another group has done something
/// there.
/// Order   the mark comes before the key, so who may meet the key in the second bucket looks there.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD bool fill(const Group& group, const TableRef& table, const Place& place,
                     const Gap<Group>& gap, std::uint64_t value) {
  return group.ballot([&](int lane) {
    if (lane != gap.lane) return false;
    if (gap.is_in_second) mark(group, table.was_full, place.first);
    const Pair empty{};
    return exec::compare_exchange_pair_device(group, table.pairs + gap.slot[lane], empty,
                                              Pair{place.word, value}) == empty;
  }) != 0;
}

/// What a request does to its key in the slot where it was seen. False: it was changed meanwhile.
/// Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD bool change(const Group& group, const TableRef& table, std::uint64_t slot,
                       const Pair& seen, Operation operation, std::uint64_t value) {
  Pair to{seen.first, value};
  switch (operation) {
    case Operation::kFind:
    case Operation::kInsert:
      return true;
    case Operation::kUpsert:
    case Operation::kUpdate:
      break;
    case Operation::kRaise:
      if (seen.second >= value) return true;
      break;
    case Operation::kDrop:
      if (seen.second != value) return true;
      [[fallthrough]];
    case Operation::kDelete:
      mark(group, table.has_deleted, slot / kBucketPairs);
      to = {kDeleted, seen.second};
      break;
  }
  return exec::compare_exchange_pair_device(group, table.pairs + slot, seen, to) == seen;
}

/// What requests do: each its own, or all one thing, which the compiler knows then.
struct AnyOperation {
  BRECCIA_HD static Operation of(const RequestsRef& requests, std::uint64_t i) {
    return operation_of(requests, i);
  }
};
template <Operation kAll>
struct OnlyOperation {
  BRECCIA_HD static Operation of(const RequestsRef& /*requests*/, std::uint64_t /*i*/) {
    return kAll;
  }
};

/// Runs requests. A key of an old table is changed there, where it is until it is moved; new ones
/// go to the other. Which buckets are moved stays as it is meanwhile.
/// Launch  group g: request g, or list[g], over its count * W items.
/// Bound   a turn fails only where another group's exchange in the same bucket did not.
template <bool kGrows, class Operations = AnyOperation>
struct Run {
  static constexpr int kBlockThreads = 128;

  GrowingRef tables;
  RequestsRef requests;
  const std::uint32_t* list = nullptr;  // null: all

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t g = first / Group::kWidth;
    const std::uint64_t i = list == nullptr ? g : list[g];
    const Place place = place_of(tables.table, requests.key[i]);
    const Operation operation = Operations::of(requests, i);
    Place old;
    if constexpr (kGrows) old = place_of(tables.old, requests.key[i]);
    for (;;) {
      if constexpr (kGrows) {
        const Look look = look_for(group, tables.old, old, tables.moved, nullptr,
                                   act_on(group, tables.old, old.word, operation, i));
        if (look == Look::kDone) return;
        if (look == Look::kAgain) continue;
      }
      Gap<Group> gap(group);
      const Look look = look_for(group, tables.table, place, 0, inserts(operation) ? &gap : nullptr,
                                 act_on(group, tables.table, place.word, operation, i));
      if (look == Look::kDone) return;
      if (look == Look::kAgain) continue;
      const bool is_full = inserts(operation) && gap.lane < 0;
      if (gap.lane >= 0 && !fill(group, tables.table, place, gap, value_of(requests, i))) continue;
      group.each_lane([&](int lane) {
        if (lane == 0) answer(requests, i, is_full ? Code::kNoRoom : Code::kAbsent, 0);
      });
      return;
    }
  }

 private:
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD auto act_on(const Group& group, const TableRef& table, std::uint64_t word,
                         Operation operation, std::uint64_t i) const {
    return [this, &group, &table, word, operation, i](std::uint64_t slot, std::uint64_t found) {
      const std::uint64_t value = value_of(requests, i);
      if (!change(group, table, slot, Pair{word, found}, operation, value)) return false;
      answer(requests, i, Code::kPresent, found);
      return true;
    };
  }
};

/// The same for finds alone in a table that does not grow: nothing is exchanged, so there is
/// nothing to try again.
struct Find {
  static constexpr int kBlockThreads = 128;

  TableRef table;
  RequestsRef requests;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    const Look look = look_for(group, table, place_of(table, requests.key[i]), 0, nullptr,
                               [&](std::uint64_t /*slot*/, std::uint64_t found) {
                                 answer(requests, i, Code::kPresent, found);
                               });
    if (look != Look::kAbsent) return;
    group.each_lane([&](int lane) {
      if (lane == 0) answer(requests, i, Code::kAbsent, 0);
    });
  }
};

/// Insertions that found both of their buckets full, by number; in no order.
/// Shape   request[as many as requests]
struct Overflow {
  std::uint32_t* request = nullptr;
  std::uint64_t* count = nullptr;
};

/// Lists the requests that found no room: of all, or of those in a list.
/// Launch  over items(count).
struct ListOverflow {
  /// Requests that a lane looks at.
  static constexpr int kPerLane = 8;

  RequestsRef requests;
  const std::uint32_t* list;  // null: all
  std::uint64_t count;
  Overflow overflow;

  static std::uint64_t items(std::uint64_t count) { return (count + kPerLane - 1) / kPerLane; }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const auto seen = group.per_lane([&](int lane) {
      Share share;
      for (int k = 0; k < kPerLane; ++k) {
        const std::uint64_t at = place<Group>(first, k, lane);
        share.is_left[k] = at < count && requests.code[number(at)] == Code::kNoRoom;
      }
      return share;
    });
    for (int k = 0; k < kPerLane; ++k) {
      const exec::LaneMask left = group.ballot([&](int lane) { return seen[lane].is_left[k]; });
      if (left != 0) append(group, left, place<Group>(first, k, 0));
    }
  }

 private:
  struct Share {
    bool is_left[kPerLane];
  };

  template <class Group>
  BRECCIA_HD static std::uint64_t place(std::uint64_t first, int k, int lane) {
    return first * kPerLane + static_cast<std::uint64_t>(k * Group::kWidth + lane);
  }
  BRECCIA_HD std::uint64_t number(std::uint64_t at) const {
    return list == nullptr ? at : list[at];
  }
  /// Appends those of `left` among the requests from `at` on, one a lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void append(const Group& group, exec::LaneMask left, std::uint64_t at) const {
    const std::uint64_t begin = group.from(0, [&](int) {
      return exec::add_relaxed_device(group, overflow.count,
                                      static_cast<std::uint64_t>(exec::count_set(left)));
    });
    group.each_lane([&](int lane) {
      const exec::LaneMask bit = exec::LaneMask{1} << lane;
      if ((left & bit) == 0) return;
      overflow.request[begin + static_cast<std::uint64_t>(exec::count_set(left & (bit - 1)))] =
          static_cast<std::uint32_t>(number(at + static_cast<std::uint64_t>(lane)));
    });
  }
};

}  // namespace breccia::hash::algo
