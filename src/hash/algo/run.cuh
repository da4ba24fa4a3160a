#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hash/algo/combine.cuh"
#include "hash/algo/slots.cuh"

/// Requests on a table, any number of batches at once.

namespace breccia::hash::algo {

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
    if (gap.is_in_second && !gap.is_first_marked) {
      mark_before(group, table.was_full, place.first);
    }
    const std::uint64_t bucket = gap.is_in_second ? place.second : place.first;
    const std::uint64_t slot =
        BucketView<Group>::begin_of(bucket, lane) + static_cast<std::uint64_t>(gap.index[lane]);
    note_fill(group, table, slot);
    const Pair empty{};
    return exec::compare_exchange_pair_device(group, table.pairs + slot, empty,
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
      mark_if_clear(group, table.has_deleted, slot / kBucketPairs);
      to = {kDeleted, seen.second};
      break;
  }
  return exec::compare_exchange_pair_device(group, table.pairs + slot, seen, to) == seen;
}

/// What requests do: each its own, or all one thing, which the compiler knows then.
struct AnyOperation {
  static constexpr bool kAreInsertions = false;
  BRECCIA_HD static Operation of(const RequestsRef& requests, std::uint64_t i) {
    return operation_of(requests, i);
  }
};
template <Operation kAll>
struct OnlyOperation {
  static constexpr bool kAreInsertions = inserts(kAll);
  BRECCIA_HD static Operation of(const RequestsRef& /*requests*/, std::uint64_t /*i*/) {
    return kAll;
  }
};

/// When requests give up, as others changed what they had seen: so often, or once, if any of their
/// batch has given up. That is hardly ever, unless many of a batch are of one key, and then all of
/// these would wait for each other's exchanges. *crowded is 1 then.
struct Patience {
  std::uint64_t* crowded = nullptr;  // null: they never do
  int tries = 0;

  /// Of one that failed `failed` times. Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool is_over(const Group& group, Operation operation, int failed) const {
    if (crowded == nullptr || !may_give_up(operation)) return false;
    const bool has_any = exec::load_hint(group, crowded) != 0;
    if (failed < tries && !has_any) return false;
    // All of a crowd would wait for one word, if each of them stored it.
    if (!has_any) exec::store_relaxed_device(group, crowded, std::uint64_t{1});
    return true;
  }
};

/// Runs requests. A key of an old table is changed there, where it is until it is moved; new ones
/// go to the other. Which buckets are moved stays as it is meanwhile.
/// Launch  group g: request g, or list[g], over its count * W items.
/// Bound   a turn fails only where another group's exchange in the same bucket did not. Which are
///         no insertions alone, and no raises, give up behind patience.tries of these.
template <bool kGrows, class Operations, class Keys>
struct Run {
  static constexpr int kBlockThreads = 128;
  /// What it waits for is memory, so threads must not be fewer than fit. A raise, and keys in rows,
  /// need more registers than that leaves.
  template <int W>
  static constexpr int kBlocksMin =
      kGrows || W == 1 || !Keys::kInSlots ||
              std::is_same_v<Operations, OnlyOperation<Operation::kRaise>>
          ? 0
          : 16;

  GrowingRef tables;
  RequestsRef requests;
  const std::uint32_t* list;  // null: all
  Keys keys;
  Patience patience;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t g = first / Group::kWidth;
    // Of 32 bits, as registers are what there is least of.
    const auto i = list == nullptr ? static_cast<std::uint32_t>(g) : list[g];
    auto key = keys.of(group, tables.table.secret, requests, i);
    const Place place = key.place(tables.table);
    const Operation operation = Operations::of(requests, i);
    // Read beside the key, where it is clear that most need it.
    const std::uint64_t early = Operations::kAreInsertions ? value_of(requests, i) : 0;
    const auto value = [&] { return Operations::kAreInsertions ? early : value_of(requests, i); };
    Place old;
    if constexpr (kGrows) old = key.place(tables.old);
    int tries = 0;
    for (;;) {
      if constexpr (kGrows) {
        const Look look = look_for(group, tables.old, old, key, tables.moved, nullptr,
                                   act_on(group, tables.old, old.word, operation, i, value));
        if (look == Look::kDone) return;
        if (look == Look::kAgain) {
          if (gives_up(group, operation, i, ++tries)) return;
          continue;
        }
      }
      Gap<Group> gap(group);
      const Look look =
          look_for(group, tables.table, place, key, 0, inserts(operation) ? &gap : nullptr,
                   act_on(group, tables.table, place.word, operation, i, value));
      if (look == Look::kDone) return;
      if (look == Look::kAgain) {
        if (gives_up(group, operation, i, ++tries)) return;
        continue;
      }
      const bool is_full = inserts(operation) && gap.lane < 0;
      if (gap.lane >= 0 && !fill(group, tables.table, place, gap, value())) continue;
      group.each_lane([&](int lane) {
        if (lane == 0) answer(requests, i, is_full ? Code::kNoRoom : Code::kAbsent, 0);
      });
      return;
    }
  }

 private:
  /// What stands there is by another one of the same key, which will not stay the last.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool gives_up(const Group& group, Operation operation, std::uint64_t i,
                           int tries) const {
    if constexpr (Operations::kAreInsertions) return false;
    return group.ballot([&](int lane) {
      if (lane != 0 || !patience.is_over(group, operation, tries)) return false;
      answer(requests, i, Code::kCrowded, 0);
      return true;
    }) != 0;
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group, class Value>
  BRECCIA_HD auto act_on(const Group& group, const TableRef& table, std::uint64_t word,
                         Operation operation, std::uint64_t i, const Value& value) const {
    return [this, &group, &table, word, operation, i, &value](std::uint64_t slot,
                                                              std::uint64_t found) {
      if (!change(group, table, slot, Pair{word, found}, operation, value())) return false;
      answer(requests, i, Code::kPresent, found);
      return true;
    };
  }
};

/// The same for finds alone of keys in slots, in a table that does not grow: nothing is exchanged,
/// so there is nothing to try again.
struct Find {
  static constexpr int kBlockThreads = 128;

  TableRef table;
  RequestsRef requests;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    const WordKeys::Key key{requests.key[i]};
    const Look look = look_for(group, table, key.place(table), key, 0, nullptr,
                               [&](std::uint64_t /*slot*/, std::uint64_t found) {
                                 answer(requests, i, Code::kPresent, found);
                               });
    if (look != Look::kAbsent) return;
    group.each_lane([&](int lane) {
      if (lane == 0) answer(requests, i, Code::kAbsent, 0);
    });
  }
};

/// Requests that are left, by number; in no order.
/// Shape   request[as many as requests]
struct Overflow {
  std::uint32_t* request = nullptr;
  std::uint64_t* count = nullptr;

  /// Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void add(const Group& group, std::uint32_t i) const {
    request[exec::add_relaxed_device(group, count, 1U)] = i;
  }
};

/// Lists the requests that were answered with a code: of all, or of those in a list.
/// Launch  over items(count).
struct ListOverflow {
  /// Requests that a lane looks at, one behind the other: a word of codes.
  static constexpr int kPerLane = 8;

  RequestsRef requests;
  const std::uint32_t* list;  // null: all
  std::uint64_t count;
  Code code;
  Overflow overflow;

  static std::uint64_t items(std::uint64_t count) { return (count + kPerLane - 1) / kPerLane; }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    // A bit for each that is left.
    const auto left = group.per_lane([&](int lane) { return look(begin_of(first, lane)); });
    if (group.ballot([&](int lane) { return left[lane] != 0; }) == 0) return;
    exec::LaneMask of_lanes[kPerLane];
    std::uint64_t all = 0;
    for (int k = 0; k < kPerLane; ++k) {
      of_lanes[k] = group.ballot([&](int lane) { return (left[lane] >> k & 1U) != 0; });
      all += static_cast<std::uint64_t>(exec::count_set(of_lanes[k]));
    }
    // One addition for all of them: where many are left, all add to one word.
    std::uint64_t at =
        group.from(0, [&](int) { return exec::add_relaxed_device(group, overflow.count, all); });
    for (int k = 0; k < kPerLane; ++k) {
      group.each_lane([&](int lane) {
        const exec::LaneMask bit = exec::LaneMask{1} << lane;
        if ((of_lanes[k] & bit) == 0) return;
        const int before = exec::count_set(of_lanes[k] & (bit - 1));
        overflow.request[at + static_cast<std::uint64_t>(before)] =
            number(begin_of(first, lane) + static_cast<std::uint64_t>(k));
      });
      at += static_cast<std::uint64_t>(exec::count_set(of_lanes[k]));
    }
  }

 private:
  BRECCIA_HD static std::uint64_t begin_of(std::uint64_t first, int lane) {
    return (first + static_cast<std::uint64_t>(lane)) * kPerLane;
  }
  BRECCIA_HD std::uint32_t number(std::uint64_t at) const {
    return list == nullptr ? static_cast<std::uint32_t>(at) : list[at];
  }
  /// Which of the kPerLane requests from `at` on have the code.
  BRECCIA_HD std::uint32_t look(std::uint64_t at) const {
    static_assert(sizeof(Code) == 1);
    std::uint32_t left = 0;
    if (list == nullptr && at + kPerLane <= count &&
        reinterpret_cast<std::uintptr_t>(requests.code) % kPerLane == 0) {
      std::uint64_t codes = 0;
      std::memcpy(&codes, __builtin_assume_aligned(requests.code + at, kPerLane), kPerLane);
      for (int k = 0; k < kPerLane; ++k) {
        if (static_cast<Code>(codes >> 8 * k & 0xff) == code) left |= 1U << k;
      }
      return left;
    }
    for (std::uint64_t k = 0; k < kPerLane && at + k < count; ++k) {
      if (requests.code[number(at + k)] == code) left |= 1U << k;
    }
    return left;
  }
};

}  // namespace breccia::hash::algo
