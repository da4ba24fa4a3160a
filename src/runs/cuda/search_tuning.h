#pragma once

#include <cstddef>
#include <cstdint>

/// Thresholds of small searches. The values are those of an H200.

namespace breccia::runs::cuda {

/// Columns of a small search up to this size are read where they lie in pinned host memory: each
/// lane reads its query once, in order, and a copy's fixed cost is more than what the bus adds.
inline constexpr std::uint64_t kZeroCopyBytesMax = 96 << 10;

/// Searches up to this many queries go in one block of staging and one kernel.
inline constexpr std::uint64_t kSmallSearchQueriesMax = 16 << 10;
/// Searches up to this many queries put kWideSearchWidth lanes on each: the device is idle
/// otherwise, and few dependent reads replace 24. H200, 4,096 queries, run of 10 M entries, without
/// its fence: one thread a query 33.0 us, 4 lanes 26.0, 8 lanes 23.0, 16 lanes 21.7, 32 lanes 20.0
/// but 60 us at 16 Ki queries.
inline constexpr std::uint64_t kWideSearchQueriesMax = 8 << 10;
inline constexpr int kWideSearchWidth = 16;
/// Threads of a block in a small search: few, so that a small batch covers many processors.
inline constexpr int kSmallSearchBlockThreads = 128;

}  // namespace breccia::runs::cuda
