#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/refs.h"

/// Ids in a device's memory as the keys of a store's index, and their rows as records of its log.

namespace breccia::hash::algo {

/// The other way round: the first byte becomes the last one.
BRECCIA_HD inline std::uint64_t byte_swapped(std::uint64_t word) {
  constexpr std::uint64_t kBytes = 0x00ff'00ff'00ff'00ff;
  constexpr std::uint64_t kHalves = 0x0000'ffff'0000'ffff;
  word = (word >> 8 & kBytes) | (word & kBytes) << 8;
  word = (word >> 16 & kHalves) | (word & kHalves) << 16;
  return word >> 32 | word << 32;
}

/// What the kernels of a lookup count.
struct LookupCounts {
  std::uint64_t missing;  // rows that are to be brought
  std::uint64_t asked;    // ids
};

/// Item 0: *to becomes *from, which may lie in a caller's memory.
struct CopyNumber {
  const std::uint64_t* from;
  std::uint64_t* to;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, 1, [&](std::uint64_t) { *to = *from; });
  }
};

/// Item i: the number by which an index knows the key whose bytes are those of id[i], or 0 where i
/// is not below *asked, so that all of those ask for one bucket.
/// Shape   counts, if not null, become {0, how many are asked for}; asked null: all `count`.
struct NumberIds {
  const std::uint64_t* id;
  std::uint64_t* number;
  std::uint64_t count;
  LookupCounts* counts;
  const std::uint64_t* asked;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t said = asked == nullptr ? count : *asked;
    const std::uint64_t n = said < count ? said : count;
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      number[i] = i < n ? byte_swapped(id[i]) : 0;
      if (i == 0 && counts != nullptr) *counts = {.missing = 0, .asked = n};
    });
  }
};

/// Records as they lie in a log: a header, which all of them share, an id, a gap, a row.
/// Shape   record[words()], row[count * row_words]; of deletions no words, and no gap
/// Launch  item j: word j of the records.
struct WriteRecords {
  std::uint64_t header = 0;
  const std::uint64_t* id = nullptr;
  const std::uint64_t* row = nullptr;
  std::uint64_t* record = nullptr;
  std::uint64_t count = 0;
  std::uint32_t words_before = 2;  // a row: header, id and gap
  std::uint32_t row_words = 0;

  [[nodiscard]] std::uint64_t words() const { return count * (words_before + row_words); }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t record_words = words_before + row_words;
    exec::each_item(group, first, count * record_words, [&](std::uint64_t j) {
      const std::uint64_t i = j / record_words;
      const std::uint64_t word = j % record_words;
      record[j] = word >= words_before ? row[i * row_words + word - words_before] : before(i, word);
    });
  }

 private:
  [[nodiscard]] BRECCIA_HD std::uint64_t before(std::uint64_t i, std::uint64_t word) const {
    if (word == 0) return header;
    return word == 1 ? id[i] : 0;
  }
};

/// Item i: what an index has of record i of a stretch that begins at `first_record`.
struct PlaceRecords {
  std::uint64_t first_record;  // a payload
  std::uint64_t record_bytes;
  std::uint64_t* payload;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t i) { payload[i] = first_record + i * record_bytes; });
  }
};

/// Counts requests by what they met, and those that met one of their own batch.
/// Shape   found[count], which may be null: what was there, where code[count] is kPresent; of the
///         batch it is first_payload at least. met[kCounts], all zero before.
/// Launch  lane l of a group: request first + l.
struct CountCodes {
  static constexpr int kCodes = 3;  // none is crowded behind a call
  static constexpr int kAgain = kCodes;
  static constexpr int kCounts = kCodes + 1;

  const Code* code;
  const std::uint64_t* found;
  std::uint64_t count;
  std::uint64_t first_payload;
  std::uint64_t* met;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    for (int one = 0; one < kCounts; ++one) {
      const exec::LaneMask with = group.ballot([&](int lane) {
        const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
        return i < count && (one == kAgain ? is_again(i) : static_cast<int>(code[i]) == one);
      });
      group.each_lane([&](int lane) {
        if (lane != 0 || with == 0) return;
        (void)exec::add_relaxed_device(group, met + one,
                                       static_cast<std::uint64_t>(exec::count_set(with)));
      });
    }
  }

 private:
  BRECCIA_HD bool is_again(std::uint64_t i) const {
    return found != nullptr && code[i] == Code::kPresent && found[i] >= first_payload;
  }
};

}  // namespace breccia::hash::algo
