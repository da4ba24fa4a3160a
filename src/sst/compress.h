#pragma once

#include <string>

#include "sst/format.h"

namespace breccia::sst {

/// Compresses a block as RocksDB's writer does at its defaults: by none, Snappy, LZ4 or ZSTD.
/// Returns what it became: kNone, and nothing in `*room`, if less than an eighth would be saved.
/// Shape   `*room` holds what is stored: the compressor's bytes, before them, but for Snappy, how
///         many there were (varint32).
/// Errors  std::bad_alloc.
/// Threads any.
Compression compress(Compression type, const Slice& contents, std::string* room);

/// Whether compress() knows it.
bool is_written(Compression type);

}  // namespace breccia::sst
