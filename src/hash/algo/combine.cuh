#pragma once

#include <cstdint>
#include <cstring>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/algo/keys.cuh"
#include "hash/refs.h"

/// Requests that gave up since too many others were at their key are done together: those that do
/// one thing to one key become neighbours in a list, one of them does it for all, and what the
/// others met follows from that, as if they had come one behind the other.

namespace breccia::hash::algo {

/// Whether a request may give up: what many of these do to one key follows from what one did.
BRECCIA_HD constexpr bool may_give_up(Operation operation) {
  return operation != Operation::kRaise && operation != Operation::kDrop;
}

/// By what requests are sorted: word[g], of request list[g].
/// Shape   its last three bits are the operation; the others are `words`, which are the same for
///         the same key. Other keys may share them: these become neighbours, too, and no more.
/// Launch  group g: request list[g].
template <class Words>
struct WordsToSort {
  RequestsRef requests;
  const std::uint32_t* list;
  Words words;
  std::uint64_t* word;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    constexpr std::uint64_t kOperations = 7;
    const std::uint64_t g = first / Group::kWidth;
    const std::uint64_t i = list[g];
    const std::uint64_t spread = words.of(group, requests, i) & ~kOperations;
    group.each_lane([&](int lane) {
      if (lane == 0) word[g] = spread | static_cast<std::uint64_t>(operation_of(requests, i));
    });
  }
};

/// The words of a table's keys, for WordsToSort.
template <class Keys>
struct WordsOf {
  Keys keys;
  TableRef table;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD std::uint64_t of(const Group& group, const RequestsRef& requests,
                              std::uint64_t i) const {
    return keys.of(group, table.secret, requests, i).place(table).word;
  }
};

/// is_last[g]: whether request list[g] is the last of those that do one thing to one key.
/// Launch  over count items.
template <class Keys>
struct MarkLast {
  RequestsRef requests;
  Keys keys;
  const std::uint32_t* list;
  std::uint64_t count;
  std::uint64_t* is_last;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t g) {
      const bool goes_on = g + 1 < count &&
                           operation_of(requests, list[g]) == operation_of(requests, list[g + 1]) &&
                           keys.are_same(requests, list[g], list[g + 1]);
      is_last[g] = goes_on ? 0 : 1;
    });
  }
};

/// What each set of requests did, by the one that did it.
/// Shape   request, code, found [as many as sets]
struct Leaders {
  std::uint32_t* request = nullptr;
  Code* code = nullptr;
  std::uint64_t* found = nullptr;
};

/// leader[set]: the last one of each set leads it. set[g]: which one list[g] is in.
/// Launch  over count items.
struct PickLeaders {
  const std::uint32_t* list;
  const std::uint64_t* is_last;
  const std::uint64_t* set;
  std::uint64_t count;
  std::uint32_t* leader;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t g) {
      if (is_last[g] != 0) leader[set[g]] = list[g];
    });
  }
};

/// Leaders get other answers when those of their sets are known.
/// Launch  over count items, the sets.
struct KeepAnswers {
  RequestsRef requests;
  std::uint64_t count;
  Leaders leaders;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t set) {
      const std::uint64_t leader = leaders.request[set];
      leaders.code[set] = requests.code[leader];
      leaders.found[set] = requests.found == nullptr ? 0 : requests.found[leader];
    });
  }
};

/// Answers all requests of the sets, as if they had been done one behind the other at the moment
/// when their leader was. Of those that write a value the leader is the last, so its value stays,
/// and each met that of the one before it; of insertions and deletions it is the first.
/// Launch  over count items.
struct AnswerSets {
  RequestsRef requests;
  const std::uint32_t* list;
  const std::uint64_t* set;
  std::uint64_t count;
  Leaders leaders;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t g) {
      const std::uint64_t i = list[g];
      Code code = leaders.code[set[g]];
      std::uint64_t found = leaders.found[set[g]];
      const std::uint64_t leader = leaders.request[set[g]];
      if (code != Code::kNoRoom) {
        switch (operation_of(requests, i)) {
          case Operation::kInsert:
            if (i != leader && code == Code::kAbsent) {
              code = Code::kPresent;
              found = value_of(requests, leader);
            }
            break;
          case Operation::kUpdate:
            if (code == Code::kAbsent) break;
            [[fallthrough]];
          case Operation::kUpsert:
            if (g > 0 && set[g - 1] == set[g]) {
              code = Code::kPresent;
              found = value_of(requests, list[g - 1]);
            }
            break;
          case Operation::kDelete:
            if (i != leader) {
              code = Code::kAbsent;
              found = 0;
            }
            break;
          case Operation::kFind:
          case Operation::kRaise:  // gives never up
          case Operation::kDrop:
            break;
        }
      }
      requests.code[i] = code;
      if (requests.found != nullptr) requests.found[i] = found;
    });
  }
};

}  // namespace breccia::hash::algo
