#pragma once

#include <cstdint>

#include "record/columns.h"

namespace breccia::runs {

/// Memory of a device within which a run of `entries` can be built, the run itself included; an
/// upper bound, for who must know before whether it fits.
/// Source  algo/runs.cuh: the columns twice, as they come and as the run has them, and of an entry
///         no more than 48 bytes of ids, sort words and work space. A pool's blocks are an eighth
///         larger than what is asked for, at most.
inline std::uint64_t build_bytes(const record::EntriesRef& entries) {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  constexpr std::uint64_t kWorkPerEntry = 48;
  constexpr std::uint64_t kSmallBlocks = 64
                                         << 10;  // where there are few entries, blocks are larger
  const std::uint64_t n = entries.keys.count;
  const std::uint64_t words_per_entry =
      2 + (entries.keys.uniform() ? 0 : 1) + (entries.value == nullptr ? 0 : 1);
  const std::uint64_t columns = (words_per_entry * n + entries.keys.tail_count) * kWord;
  return (2 * columns + kWorkPerEntry * n) / 8 * 9 + kSmallBlocks;
}

}  // namespace breccia::runs
