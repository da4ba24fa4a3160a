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

BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void pass_on(const Group& group, const Overflow& overflow, std::uint64_t i) {
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

/// Where a key may lie in both tables of a growing one.
struct Places {
  Place place;
  Place old;  // unused, if it does not grow
};

/// One request, until it has happened. A key of the old table is changed there, where it is until
/// it is moved; new ones go to the other. Which buckets are moved stays as it is meanwhile.
/// Bound   a turn fails only where another group's exchange in the same bucket did not.
BRECCIA_SINGLE_SOURCE
template <bool kGrows, class Group>
BRECCIA_HD Code run_one(const Group& group, const GrowingRef& tables, Operation operation,
                        const Places& places, std::uint64_t value, std::uint64_t* found) {
  for (;;) {
    if constexpr (kGrows) {
      const Sighting old = look_in_old(group, tables, places.old);
      if (old.is_present) {
        *found = old.value;
        if (act_on(group, tables.old, places.old, old, operation, value) == Try::kDone) {
          return Code::kPresent;
        }
        continue;
      }
    }
    const Sighting sighting = look_for(group, tables.table, places.place);
    if (sighting.is_present) {
      *found = sighting.value;
      if (act_on(group, tables.table, places.place, sighting, operation, value) == Try::kDone) {
        return Code::kPresent;
      }
      continue;
    }
    if (!inserts(operation)) return Code::kAbsent;
    if (!sighting.has_slot) return Code::kNoRoom;
    if (insert_at(group, tables.table, places.place, sighting, value) == Try::kDone) {
      return Code::kAbsent;
    }
  }
}

/// A request, as its lane has it until its turn comes.
struct Asked {
  std::uint64_t number = 0;
  Places places;
  std::uint64_t value = 0;
  Operation operation = Operation::kFind;
};

/// What came of a group's requests.
template <int W>
struct Answers {
  Code code[W];
  std::uint64_t found[W];
};

/// What one lane knows, told to all.
BRECCIA_SINGLE_SOURCE
template <class Group, class Of>
BRECCIA_HD Place place_from(const Group& group, int lane, const Of& of) {
  return {.word = group.from(lane, [&](int l) { return of(l).word; }),
          .first = group.from(lane, [&](int l) { return of(l).first; }),
          .second = group.from(lane, [&](int l) { return of(l).second; })};
}

/// The first half of a bucket: there most keys are.
BRECCIA_HD inline void prefetch_bucket(const TableRef& table, std::uint64_t bucket) {
  const Pair* const pairs = table.pairs + bucket * kBucketPairs;
  exec::prefetch(pairs);
  exec::prefetch(pairs + 2);
}

/// Reads a request, and asks for its bucket.
template <bool kGrows>
BRECCIA_HD Asked ask(const GrowingRef& tables, const RequestsRef& requests, std::uint64_t i) {
  Asked asked;
  asked.number = i;
  asked.places.place = place_of(tables.table, requests.key[i]);
  prefetch_bucket(tables.table, asked.places.place.first);
  if constexpr (kGrows) {
    asked.places.old = place_of(tables.old, requests.key[i]);
    if (asked.places.old.first >= tables.moved) prefetch_bucket(tables.old, asked.places.old.first);
  }
  asked.operation = operation_of(requests, i);
  if (requests.value != nullptr) asked.value = requests.value[i];
  return asked;
}

/// Answers the requests of a group's lanes, and passes on those that found no room.
/// Shape   asked[lane] of `count` lanes, with numbers.
BRECCIA_SINGLE_SOURCE
template <class Group, class AskedOfLane>
BRECCIA_HD void answer(const Group& group, const RequestsRef& requests, const AskedOfLane& asked,
                       const Answers<Group::kWidth>& answers, int count, const Overflow& overflow) {
  // No index that a lane computes: arrays of registers have none.
  const auto code_of = [&](int lane) {
    Code code = Code::kAbsent;
    for (int l = 0; l < Group::kWidth; ++l) code = l == lane ? answers.code[l] : code;
    return code;
  };
  const auto found_of = [&](int lane) {
    std::uint64_t found = 0;
    for (int l = 0; l < Group::kWidth; ++l) found = l == lane ? answers.found[l] : found;
    return found;
  };
  group.each_lane([&](int lane) {
    if (lane >= count) return;
    const std::uint64_t i = asked[lane].number;
    requests.code[i] = code_of(lane);
    if (requests.found != nullptr) requests.found[i] = found_of(lane);
  });
  if (overflow.count == nullptr) return;
  const exec::LaneMask left =
      group.ballot([&](int lane) { return lane < count && code_of(lane) == Code::kNoRoom; });
  if (left == 0) return;
  const std::uint64_t begin = group.from(0, [&](int) {
    return exec::add_relaxed_device(group, overflow.count,
                                    static_cast<std::uint64_t>(exec::count_set(left)));
  });
  group.each_lane([&](int lane) {
    const exec::LaneMask bit = exec::LaneMask{1} << lane;
    if ((left & bit) == 0) return;
    overflow.request[begin + static_cast<std::uint64_t>(exec::count_set(left & (bit - 1)))] =
        static_cast<std::uint32_t>(asked[lane].number);
  });
}

/// Runs requests, those of all lanes of a group one after the other. Each lane has read its own and
/// asked for its bucket before, so that memory works on W of them at once.
/// Launch  item i: request i, or list[i], over `count`.
template <bool kGrows>
struct Run {
  GrowingRef tables;
  RequestsRef requests;
  Overflow overflow;                    // its count may be null: none finds no room
  const std::uint32_t* list = nullptr;  // that of another Overflow, or null: all
  std::uint64_t count = 0;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const auto asked = group.per_lane([&](int lane) {
      const std::uint64_t at = first + static_cast<std::uint64_t>(lane);
      if (at >= count) return Asked();
      return ask<kGrows>(tables, requests, list == nullptr ? at : list[at]);
    });
    Answers<Group::kWidth> answers{};
    int here = 0;
    for (int lane = 0; lane < Group::kWidth; ++lane) {
      if (first + static_cast<std::uint64_t>(lane) >= count) break;
      ++here;
      Places places;
      places.place = place_from(group, lane, [&](int l) { return asked[l].places.place; });
      if constexpr (kGrows) {
        places.old = place_from(group, lane, [&](int l) { return asked[l].places.old; });
      }
      std::uint64_t found = 0;
      const auto operation = static_cast<Operation>(
          group.from(lane, [&](int l) { return static_cast<unsigned>(asked[l].operation); }));
      const Code code =
          run_one<kGrows>(group, tables, operation, places,
                          group.from(lane, [&](int l) { return asked[l].value; }), &found);
      answers.code[lane] = code;
      answers.found[lane] = code == Code::kPresent ? found : 0;
    }
    answer(group, requests, asked, answers, here, overflow);
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
    const auto asked = group.per_lane([&](int lane) {
      const std::uint64_t at = first + static_cast<std::uint64_t>(lane);
      return at < requests.count ? ask<false>({table, {}, 0}, requests, at) : Asked();
    });
    Answers<Group::kWidth> answers{};
    int here = 0;
    for (int lane = 0; lane < Group::kWidth; ++lane) {
      if (first + static_cast<std::uint64_t>(lane) >= requests.count) break;
      ++here;
      const Sighting sighting = look_for(
          group, table, place_from(group, lane, [&](int l) { return asked[l].places.place; }));
      answers.code[lane] = sighting.is_present ? Code::kPresent : Code::kAbsent;
      answers.found[lane] = sighting.value;
    }
    answer(group, requests, asked, answers, here, {});
  }
};

}  // namespace breccia::hash::algo
