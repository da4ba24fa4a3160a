#pragma once

#include <cstdint>
#include <cstring>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/refs.h"
#include "record/record.h"

/// Rows where a log has them, read by kernels: over a bus, a few dozen million a second.

namespace breccia::hash::algo {

/// A put of an id in a log: a header, the id, the row.
struct LoggedRow {
  static constexpr std::uint64_t kWordsBefore = 2;

  LogRef log;
  std::uint64_t header = 0;  // of a record whose value is a row

  static LoggedRow of(const LogRef& log, std::uint64_t row_bytes) {
    const auto header =
        record::RecordHeader::make(record::Op::kPut, sizeof(std::uint64_t), row_bytes);
    LoggedRow logged{log, 0};
    std::memcpy(&logged.header, &header, sizeof logged.header);
    return logged;
  }

  /// The record of a payload that has a value; null: it is not to be had here.
  [[nodiscard]] BRECCIA_HD const std::uint64_t* at(std::uint64_t payload,
                                                   std::uint64_t words) const {
    return reinterpret_cast<const std::uint64_t*>(
        log.at(payload, (kWordsBefore + words) * sizeof(std::uint64_t)));
  }
};

/// Copies words by all lanes. Several are read before any is written, as each read may cross a bus.
BRECCIA_SINGLE_SOURCE
template <class Group, class Word>
BRECCIA_HD void copy_words(const Group& group, const Word* from, std::uint32_t words, Word* to) {
  constexpr std::uint32_t kAtOnce = 4;
  group.each_lane([&](int lane) {
    for (auto w = static_cast<std::uint32_t>(lane); w < words; w += kAtOnce * Group::kWidth) {
      Word read[kAtOnce];
      for (std::uint32_t k = 0; k < kAtOnce; ++k) {
        const std::uint32_t at = w + k * Group::kWidth;
        read[k] = from[at < words ? at : w];
      }
      for (std::uint32_t k = 0; k < kAtOnce; ++k) {
        const std::uint32_t at = w + k * Group::kWidth;
        if (at < words) to[at] = read[k];
      }
    }
  });
}

/// Reads rows of payloads that have a value, and says which it could not read.
/// Shape   payload[count], request[count]: whose they are; row[requests * words], found[requests]:
///         1 where the record has a row, else 0. unread: those of which kernels do not see the
///         record, in no order; its count is not cleared here.
/// Launch  group g: payload g, and each that comes `groups` behind another, over groups * W items.
/// Order   the records were written before the launch.
/// Bound   it waits for a bus nearly all the time: many groups would fill the device's
///         multiprocessors, and other kernels wait for them.
struct ReadLogged {
  static constexpr int kBlockThreads = 128;
  /// More do not make a bus faster.
  static constexpr std::uint64_t kGroupsMax = 1024;

  LoggedRow logged;
  const std::uint64_t* payload;
  const std::uint32_t* request;
  std::uint64_t count;
  std::uint64_t groups;
  std::uint64_t* row;
  std::uint8_t* found;
  std::uint32_t words;  // of a row
  MissingRef unread;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    for (std::uint64_t k = first / Group::kWidth; k < count; k += groups) read(group, k);
  }

 private:
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void read(const Group& group, std::uint64_t k) const {
    const std::uint64_t i = request[k];
    const std::uint64_t* const record = logged.at(payload[k], words);
    const bool is_row = record != nullptr && record[0] == logged.header;
    if (record != nullptr) {
      copy_words(group, record + LoggedRow::kWordsBefore, words, row + i * words);
    }
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      found[i] = is_row ? 1 : 0;
      if (record != nullptr) return;
      const std::uint64_t at = exec::add_relaxed_device(group, unread.count, std::uint64_t{1});
      unread.request[at] = static_cast<std::uint32_t>(i);
      unread.payload[at] = payload[k];
    });
  }
};

}  // namespace breccia::hash::algo
