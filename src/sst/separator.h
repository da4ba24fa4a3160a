#pragma once

#include <string>

#include "sst/table_shape.h"

/// Keys of an index, made shorter as RocksDB does it.

namespace breccia::sst {

/// Writes a key to `*key` that is not less than `last`, and less than `next`, and no longer than
/// `last`. All are internal keys.
void separate(IndexShortening how, const Slice& last, const Slice& next, std::string* key);

/// Writes a key to `*key` that is not less than `last`, the last of all, and no longer.
void succeed(IndexShortening how, const Slice& last, std::string* key);

}  // namespace breccia::sst
