#pragma once

#include <cstdint>

#include "hash/algo/rows_ref.cuh"
#include "hash/algo/run.cuh"
#include "hash/refs.h"

/// Values that do not fit into a slot, and keys that do not, lie in rows, and a slot has a row's
/// number. Batches copy them before and behind what they do to slots: nothing here is seen half
/// done, as a row that a slot names is not written again until nobody can look at it
/// (hash/grace.h).

namespace breccia::hash::algo {

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

/// The same for rows with keys: request i's key goes there, too.
/// Shape   no more requests than rows.
/// Launch  group g: request g, over count * W items.
struct PutKeyedRows {
  RowKeys keys;
  RequestsRef requests;
  std::uint64_t begin;  // within the ring
  const std::uint64_t* values;
  std::uint64_t* own;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    const RowsRef& rows = keys.rows;
    const std::uint64_t at = begin + i;
    const std::uint64_t row = rows.ring[at < rows.count ? at : at - rows.count];
    const bool is_needed = needs_row(operation_of(requests, i));
    group.each_lane([&](int lane) {
      if (lane == 0) own[i] = row;
      if (!is_needed) return;
      for (auto p = static_cast<std::uint32_t>(lane); p < rows.shape.pairs(); p += Group::kWidth) {
        Pair pair = keys.pair_of(i, p);
        add_value(i, 2 * p, &pair.first);
        add_value(i, 2 * p + 1, &pair.second);
        rows.pairs_of(row)[p] = pair;
      }
    });
  }

 private:
  /// Word `at` of a row, if it is one of the value.
  BRECCIA_HD void add_value(std::uint64_t i, std::uint32_t at, std::uint64_t* word) const {
    const RowShape& shape = keys.rows.shape;
    if (values == nullptr || at < shape.key_words || at >= shape.key_words + shape.value_words) {
      return;
    }
    *word = values[i * shape.value_words + (at - shape.key_words)];
  }
};

/// Finds alone of keys in rows, in a table that does not grow, and their values: who has seen that
/// a row has the key has read its value.
/// Shape   found: values one behind the other, or null.
/// Launch  group g: request g, over count * W items. `keys` read all of a row.
struct FindInRows {
  static constexpr int kBlockThreads = 128;

  TableRef table;
  RequestsRef requests;
  RowKeys keys;
  std::uint64_t* found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t i = first / Group::kWidth;
    RowKey<Group> key = keys.of(group, table.secret, requests, i);
    const auto no_more = [](std::uint64_t /*slot*/, std::uint64_t /*row*/) {};
    const Look look = look_for(group, table, key.place(table), key, 0, nullptr, no_more);
    group.each_lane([&](int lane) {
      if (lane == 0) requests.code[i] = look == Look::kAbsent ? Code::kAbsent : Code::kPresent;
    });
    if (look == Look::kAbsent || found == nullptr) return;
    key.copy_value(group, found + i * keys.rows.shape.value_words);
  }
};

/// Copies the values of the rows that requests found. Of absent keys `found` is left as it is.
/// Launch  item j: word j of `found`, over count * words.
template <class Word>
struct GetRows {
  RowsRef rows;
  const std::uint64_t* row;
  const Code* code;
  Word* found;
  std::uint64_t count;
  std::uint32_t words;     // of a value
  std::uint32_t value_at;  // in a row
  std::uint32_t row_words;

  static GetRows of(const RowsRef& rows, const std::uint64_t* row, const Code* code, char* found,
                    std::uint64_t count) {
    constexpr std::uint32_t kEach = sizeof(Word) / sizeof(std::uint64_t);
    const RowShape& shape = rows.shape;
    return {.rows = rows,
            .row = row,
            .code = code,
            .found = reinterpret_cast<Word*>(found),
            .count = count,
            .words = shape.value_words / kEach,
            .value_at = shape.key_words / kEach,
            .row_words = shape.words / kEach};
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count * words, [&](std::uint64_t j) {
      const std::uint64_t i = j / words;
      if (code[i] != Code::kPresent) return;
      found[j] =
          reinterpret_cast<const Word*>(rows.bytes)[row[i] * row_words + value_at + j % words];
    });
  }
};

/// What requests leave behind, in no order: rows that they took and did not need, and those that
/// their keys had before.
/// Shape   given[2 * count], and how many: *given_count; own may be null: none were taken.
/// Launch  lane l of a group: request first + l.
struct GiveBack {
  RequestsRef requests;
  const std::uint64_t* own;
  const std::uint64_t* before;
  bool is_undone;  // nothing was done
  std::uint32_t* given;
  std::uint64_t* given_count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const auto request_of = [first](int lane) { return first + static_cast<std::uint64_t>(lane); };
    const exec::LaneMask owns = group.ballot([&](int lane) { return gives_own(request_of(lane)); });
    const exec::LaneMask olds = group.ballot([&](int lane) { return gives_old(request_of(lane)); });
    const auto own_count = static_cast<std::uint64_t>(exec::count_set(owns));
    const std::uint64_t all = own_count + static_cast<std::uint64_t>(exec::count_set(olds));
    if (all == 0) return;
    const std::uint64_t begin =
        group.from(0, [&](int) { return exec::add_relaxed_device(group, given_count, all); });
    group.each_lane([&](int lane) {
      const exec::LaneMask bit = exec::LaneMask{1} << lane;
      const std::uint64_t i = request_of(lane);
      if ((owns & bit) != 0) {
        const auto at = static_cast<std::uint64_t>(exec::count_set(owns & (bit - 1)));
        given[begin + at] = static_cast<std::uint32_t>(own[i]);
      }
      if ((olds & bit) != 0) {
        const auto at = static_cast<std::uint64_t>(exec::count_set(olds & (bit - 1)));
        given[begin + own_count + at] = static_cast<std::uint32_t>(before[i]);
      }
    });
  }

  /// Whether it gives a key that is there another value.
  BRECCIA_HD static bool changes(Operation operation) {
    return operation == Operation::kUpsert || operation == Operation::kUpdate;
  }
  BRECCIA_HD bool gives_own(std::uint64_t i) const {
    if (i >= requests.count || own == nullptr) return false;
    if (is_undone) return true;
    const Operation operation = operation_of(requests, i);
    const bool uses = requests.code[i] == Code::kPresent
                          ? changes(operation)
                          : requests.code[i] == Code::kAbsent && inserts(operation);
    return !uses;
  }
  BRECCIA_HD bool gives_old(std::uint64_t i) const {
    if (i >= requests.count || is_undone || requests.code[i] != Code::kPresent) return false;
    const Operation operation = operation_of(requests, i);
    return changes(operation) || operation == Operation::kDelete;
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
