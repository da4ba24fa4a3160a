#pragma once

#include <cstddef>
#include <cstdint>

/// Every limit of the store has its name here.
namespace breccia::limits {

inline constexpr std::uint64_t kKeyBytesMax = 64ULL << 10;
inline constexpr std::uint64_t kValueBytesMax = 1ULL << 30;
/// What merge operands become in a file, whose blocks have lengths of 32 bits; above, they stay
/// apart.
inline constexpr std::uint64_t kMergedBytesMax = 3ULL << 30;
/// One frame of the log: record offsets in it are 32-bit counts of 8-byte units.
inline constexpr std::uint64_t kFrameBytesMax = 32ULL << 30;
/// Requests of one batch, so that an index fits 32 bits with room for tags.
inline constexpr std::uint64_t kBatchRequestsMax = 1ULL << 28;
/// Log positions are looked up by windows of this many bytes (wal/segment_table.h).
inline constexpr std::uint64_t kLogWindowBytes = 64ULL << 20;
/// Log that may wait for a flush. Entries of a merge have 32-bit numbers, and each takes 12 bytes
/// of log at least.
inline constexpr std::uint64_t kMemtableBytesMax = 32ULL << 30;
/// Tasks that may wait for a thread of the store.
inline constexpr std::size_t kTasksMax = 4096;
/// Batches that may wait to be run by SubmitAsync, and what it runs at once: requests, bytes of the
/// log. A batch of kAsyncLargeRequests goes by itself: it gains nothing from others.
inline constexpr std::size_t kAsyncBatchesMax = 1 << 20;
inline constexpr std::uint64_t kAsyncGroupRequestsMax = 1 << 20;
inline constexpr std::uint64_t kAsyncGroupBytesMax = 64ULL << 20;
inline constexpr std::uint64_t kAsyncLargeRequests = 16 << 10;
/// Range deletions in memory from which on a flush starts, and at which writers wait for it.
inline constexpr std::size_t kTombstonesBeforeFlush = 64 << 10;
inline constexpr std::size_t kTombstonesMax = 1 << 20;
/// Runs that one search may visit.
inline constexpr int kRunsPerSearchMax = 128;

}  // namespace breccia::limits
