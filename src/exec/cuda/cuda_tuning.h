#pragma once

#include <cstddef>
#include <cstdint>

/// Launch policy and thresholds of the CUDA backend. The values are those of an H200.

namespace breccia::exec::cuda {

/// Threads of a block where the functor has no `kBlockThreads` of its own.
inline constexpr int kBlockThreads = 256;

/// Pinned memory of an executor, in two halves that are filled and copied in turn.
inline constexpr std::size_t kStagingBytes = 4 << 20;
inline constexpr std::size_t kStagingHalfBytes = kStagingBytes / 2;

/// Entries up to which counting puts them in order: a launch, where a sort and what surrounds it
/// are a dozen with three waits between them.
inline constexpr std::uint64_t kCountedMax = 8 << 10;

/// Work space that an idle executor keeps.
inline constexpr std::size_t kScratchKeptBytesMax = 64 << 20;

}  // namespace breccia::exec::cuda
