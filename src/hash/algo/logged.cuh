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

}  // namespace breccia::hash::algo
