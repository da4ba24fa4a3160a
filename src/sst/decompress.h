#pragma once

#include <string>

#include "sst/format.h"

namespace breccia::sst {

/// Longest block that is read, before and after its compression.
inline constexpr std::uint64_t kBlockBytesMax = 1ULL << 30;

/// The contents of a block of a table of format_version 2 and later.
/// Shape   `*room` holds what was compressed, and `*contents` lies in it or is `stored`; of LZ4
///         only the first `wanted` bytes, if it has as many.
/// Errors  Corruption: not what a compressor writes; NotSupported: a type that is not read here;
///         MemoryLimit.
/// Threads any.
Status decompress(Compression type, const Slice& stored, std::string* room, Slice* contents,
                  std::uint64_t wanted = kBlockBytesMax);

}  // namespace breccia::sst
