#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#include "base/parallel.h"
#include "batch/columns.h"

namespace breccia::batch {

/// Chunks from which on threads share them: waking them costs what a core does meanwhile.
inline constexpr std::uint64_t kSharedChunksMin = 8;

/// How many chunks `count` requests are.
constexpr std::uint64_t chunks_of(std::uint64_t count) {
  return (count + kChunkRequests - 1) / kChunkRequests;
}

/// Calls work(chunk, begin, end) for the chunks of `count` requests. It cannot fail: what there is
/// no memory to share, the caller does alone.
/// Shape   work() for the same chunk again changes nothing.
template <class Work>
void for_each_chunk(std::uint64_t count, const Work& work) {
  const std::uint64_t chunks = chunks_of(count);
  const auto run = [&](std::uint64_t chunk) {
    const std::uint64_t begin = chunk * kChunkRequests;
    work(chunk, begin, std::min(count, begin + kChunkRequests));
  };
  if (chunks >= kSharedChunksMin) {
    try {
      return base::shared_for(std::uint64_t{0}, chunks, run);
    } catch (const std::bad_alloc&) {  // alone, then
    }
  }
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
}

}  // namespace breccia::batch
