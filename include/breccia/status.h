#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

/// Breccia uses RocksDB's Slice and Status as they are, so results can be handed on unchanged.
namespace breccia {

using Slice = rocksdb::Slice;
using Status = rocksdb::Status;

}  // namespace breccia
