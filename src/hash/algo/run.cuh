#pragma once

#include <cstdint>

#include "hash/algo/slots.cuh"

/// Requests on a table, any number of batches at once.

namespace breccia::hash::algo {

/// Insertions that found both of their buckets full, by number; in no order.
/// Shape   request[as many as requests]
struct Overflow {
  std::uint32_t* request = nullptr;
  std::uint64_t* count = nullptr;
};

/// What became of a try to change a slot.
enum class Try : std::uint8_t { kDone, kAgain };

BRECCIA_HD inline Operation operation_of(const RequestsRef& requests, std::uint64_t i) {
  return requests.operation == nullptr ? requests.all : requests.operation[i];
}

BRECCIA_HD inline std::uint64_t value_of(const RequestsRef& requests, std::uint64_t i) {
  return requests.value == nullptr ? 0 : requests.value[i];
}

BRECCIA_HD inline void store_outcome(const RequestsRef& requests, std::uint64_t i, Code code,
                                     std::uint64_t found) {
  requests.code[i] = code;
  if (requests.found != nullptr) requests.found[i] = code == Code::kPresent ? found : 0;
}

/// The same, and notes an insertion that found no room.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void store_or_pass_on(const Group& group, const RequestsRef& requests, std::uint64_t i,
                                 Code code, std::uint64_t found, const Overflow& overflow) {
  store_outcome(requests, i, code, found);
  if (code != Code::kNoRoom) return;
  const std::uint64_t at = exec::add_relaxed_device(group, overflow.count, 1U);
  overflow.request[at] = static_cast<std::uint32_t>(i);
}

/// Sets a bucket's bit in a map of them.
/// Cost    a load, and where it is clear one atomic.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void mark(const Group& group, std::uint32_t* bits, std::uint64_t bucket) {
  group.each_lane([&](int lane) {
    if (lane != 0) return;
    const std::uint32_t bit = 1U << bucket % 32;
    std::uint32_t* const word = bits + bucket / 32;
    if ((exec::load_relaxed_device(group, word) & bit) == 0) {
      (void)exec::or_acq_rel_device(group, word, bit);
    }
  });
}

BRECCIA_HD inline bool inserts(Operation operation) {
  return operation == Operation::kInsert || operation == Operation::kUpsert;
}

/// Puts an absent key into the slot that was seen empty.
/// Order   whoever sees a slot empty in the first bucket, and so asks for its mark, has an older
///         view of it than this call, for which all were full: the mark need not come before the
///         key. Behind the next section everybody sees both.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD Try insert_at(const Group& group, const TableRef& table, const Place& place,
                         const Sighting& sighting, std::uint64_t value) {
  if (sighting.in_second) mark(group, table.was_full, place.first);
  const bool is_done = group.from(0, [&](int) {
    const Pair empty{};
    return exec::compare_exchange_pair_device(group, table.pairs + sighting.slot, empty,
                                              Pair{place.word, value}) == empty;
  });
  return is_done ? Try::kDone : Try::kAgain;
}

/// Gives a key that was seen another value, or takes it away.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD Try change_at(const Group& group, const TableRef& table, const Place& place,
                         const Sighting& sighting, const Pair& to) {
  const bool is_done = group.from(0, [&](int) {
    const Pair seen{place.word, sighting.value};
    return exec::compare_exchange_pair_device(group, table.pairs + sighting.slot, seen, to) == seen;
  });
  return is_done ? Try::kDone : Try::kAgain;
}

/// What a request does to a key that was seen. Nothing, if it only looks.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD Try act_on(const Group& group, const TableRef& table, const Place& place,
                      const Sighting& sighting, Operation operation, std::uint64_t value) {
  switch (operation) {
    case Operation::kUpsert:
    case Operation::kUpdate:
      return change_at(group, table, place, sighting, Pair{place.word, value});
    case Operation::kDelete:
      mark(group, table.has_deleted, sighting.slot / kBucketPairs);
      return change_at(group, table, place, sighting, Pair{kDeleted, sighting.value});
    case Operation::kFind:
    case Operation::kInsert:
      break;
  }
  return Try::kDone;
}

/// One request, until it has happened. A key of the old table is changed there, where it is until
/// it is moved; new ones go to the other. Which buckets are moved stays as it is meanwhile.
/// Bound   a turn fails only where another group's exchange in the same bucket did not.
BRECCIA_SINGLE_SOURCE
template <bool kGrows, class Group>
BRECCIA_HD Code run_one(const Group& group, const GrowingRef& tables, Operation operation,
                        std::uint64_t key, std::uint64_t value, std::uint64_t* found) {
  const Place place = place_of(tables.table, key);
  for (;;) {
    if constexpr (kGrows) {
      const Place old_place = place_of(tables.old, key);
      const Sighting old = look_in_old(group, tables, old_place);
      if (old.is_present) {
        *found = old.value;
        if (act_on(group, tables.old, old_place, old, operation, value) == Try::kDone) {
          return Code::kPresent;
        }
        continue;
      }
    }
    const Sighting sighting = look_for(group, tables.table, place);
    if (sighting.is_present) {
      *found = sighting.value;
      if (act_on(group, tables.table, place, sighting, operation, value) == Try::kDone) {
        return Code::kPresent;
      }
      continue;
    }
    if (!inserts(operation)) return Code::kAbsent;
    if (!sighting.has_slot) return Code::kNoRoom;
    if (insert_at(group, tables.table, place, sighting, value) == Try::kDone) return Code::kAbsent;
  }
}

/// Group g runs request g, or request[g]. Launch over count * W items.
template <bool kGrows>
struct Run {
  GrowingRef tables;
  RequestsRef requests;
  Overflow overflow;
  const std::uint32_t* request = nullptr;  // those of another Overflow, or null: all

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t turn = first / Group::kWidth;
    const std::uint64_t i = request == nullptr ? turn : request[turn];
    std::uint64_t found = 0;
    const Code code = run_one<kGrows>(group, tables, operation_of(requests, i), requests.key[i],
                                      value_of(requests, i), &found);
    group.each_lane([&](int lane) {
      if (lane == 0) store_or_pass_on(group, requests, i, code, found, overflow);
    });
  }
};

/// The same for finds alone in a table that does not grow: nothing is exchanged, so there is
/// nothing to try again.
struct Find {
  TableRef table;
  RequestsRef requests;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    const Sighting sighting = look_for(group, table, place_of(table, requests.key[i]));
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      store_outcome(requests, i, sighting.is_present ? Code::kPresent : Code::kAbsent,
                    sighting.value);
    });
  }
};

}  // namespace breccia::hash::algo
