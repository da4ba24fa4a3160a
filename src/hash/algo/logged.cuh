#pragma once

#include <cstdint>
#include <cstring>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/refs.h"
#include "record/record.h"

/// Rows where a log has them, read by kernels: over a bus, a few dozen million a second.

namespace breccia::hash::algo {

/// Puts of ids in a log that have one header: it, the id, a gap maybe, the row. Or the same without
/// the gap.
struct LoggedRow {
  static constexpr std::uint32_t kWordsBefore = 2;  // a row without a gap

  LogRef log;
  std::uint64_t header = 0;
  std::uint64_t plain = 0;         // header without the gap
  std::uint32_t words_before = 0;  // a row
  std::uint32_t words = 0;         // of a record

  static LoggedRow of(const LogRef& log, const record::RecordHeader& header) {
    constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
    LoggedRow logged{log, 0, 0, static_cast<std::uint32_t>(header.value_offset() / kWordBytes),
                     static_cast<std::uint32_t>(header.record_bytes() / kWordBytes)};
    const auto plain =
        record::RecordHeader::make(header.op(), header.key_bytes(), header.value_bytes);
    std::memcpy(&logged.header, &header, sizeof logged.header);
    std::memcpy(&logged.plain, &plain, sizeof logged.plain);
    return logged;
  }

  /// The record of a payload that has a value, which may be of another header: as many bytes as
  /// those of this one have; null: they are not to be had here.
  [[nodiscard]] BRECCIA_HD const std::uint64_t* at(std::uint64_t payload) const {
    return reinterpret_cast<const std::uint64_t*>(
        log.at(payload, std::uint64_t{words} * sizeof(std::uint64_t)));
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
