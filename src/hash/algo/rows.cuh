#pragma once

#include <cstdint>

#include "hash/algo/run.cuh"
#include "hash/refs.h"

/// Values that do not fit into a slot lie in rows, and a slot has a row's number. Batches copy them
/// before and behind what they do to slots: nothing here is seen half done, as a row that a slot
/// names is not written again until nobody can look at it (hash/grace.h).

namespace breccia::hash::algo {

/// Rows of a table, and the numbers of those that are free, as a ring.
struct RowsRef {
  char* bytes = nullptr;
  std::uint64_t row_bytes = 0;  // a multiple of 8
  std::uint32_t* ring = nullptr;
  std::uint64_t count = 0;  // of rows, and of places in the ring
};

/// Whether a request may put its value into a row.
BRECCIA_HD inline bool needs_row(Operation operation) {
  return operation == Operation::kUpdate || inserts(operation);
}

/// Item i: the row with number i is free.
struct FreeAll {
  RowsRef rows;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, rows.count,
                    [&](std::uint64_t i) { rows.ring[i] = static_cast<std::uint32_t>(i); });
  }
};

/// Request i takes the row at place `begin` + i of the ring, and its value goes there.
/// Shape   values: rows one behind the other, or null: zeros; own[count].
/// Launch  item j: word j of the values, over count * words.
template <class Word>
struct PutRows {
  RowsRef rows;
  RequestsRef requests;
  std::uint64_t begin;
  const Word* values;
  std::uint64_t* own;
  std::uint32_t words;  // of a row

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, requests.count * words, [&](std::uint64_t j) {
      const std::uint64_t i = j / words;
      const std::uint64_t word = j % words;
      const std::uint64_t row = rows.ring[(begin + i) % rows.count];
      if (word == 0) own[i] = row;
      if (!needs_row(operation_of(requests, i))) return;
      reinterpret_cast<Word*>(rows.bytes)[row * words + word] =
          values == nullptr ? Word{} : values[j];
    });
  }
};

/// Copies the rows that requests found. Of absent keys `found` is left as it is.
/// Launch  item j: word j of `found`, over count * words.
template <class Word>
struct GetRows {
  RowsRef rows;
  const std::uint64_t* row;
  const Code* code;
  Word* found;
  std::uint64_t count;
  std::uint32_t words;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count * words, [&](std::uint64_t j) {
      const std::uint64_t i = j / words;
      if (code[i] != Code::kPresent) return;
      found[j] = reinterpret_cast<const Word*>(rows.bytes)[row[i] * words + j % words];
    });
  }
};

/// What each request leaves behind: the row that it took and did not need, and the one that its key
/// had before.
/// Shape   given[2 * count], is_given[the same]; own may be null: none were taken.
struct GiveBack {
  RequestsRef requests;
  const std::uint64_t* own;
  const std::uint64_t* before;
  bool is_undone;  // nothing was done
  std::uint32_t* given;
  std::uint8_t* is_given;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, requests.count, [&](std::uint64_t i) {
      const Operation operation = operation_of(requests, i);
      const bool is_present = !is_undone && requests.code[i] == Code::kPresent;
      const bool is_absent = !is_undone && requests.code[i] == Code::kAbsent;
      const bool uses = (is_present && changes(operation)) || (is_absent && inserts(operation));
      const bool leaves = is_present && (changes(operation) || operation == Operation::kDelete);
      const bool has_own = own != nullptr;
      is_given[2 * i] = has_own && !uses ? 1 : 0;
      given[2 * i] = has_own ? static_cast<std::uint32_t>(own[i]) : 0;
      is_given[2 * i + 1] = leaves ? 1 : 0;
      given[2 * i + 1] = static_cast<std::uint32_t>(before[i]);
    });
  }

  /// Whether it gives a key that is there another value.
  BRECCIA_HD static bool changes(Operation operation) {
    return operation == Operation::kUpsert || operation == Operation::kUpdate;
  }
};

/// Item i: puts a number at the ring's place `end` + i.
struct Enqueue {
  RowsRef rows;
  const std::uint32_t* given;
  std::uint64_t count;
  std::uint64_t end;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t i) { rows.ring[(end + i) % rows.count] = given[i]; });
  }
};

}  // namespace breccia::hash::algo
