#pragma once

#include <rocksdb/merge_operator.h>

#include <memory>

namespace breccia {

/// Merge operators whose batches of updates are worked out at once on the store's backend, where
/// all values and operands have 8 bytes; so are those of RocksDB's "uint64add", "max" and "put"
/// (rocksdb::MergeOperator::CreateFromString). They are ordinary RocksDB operators: any RocksDB
/// program that is given them can read the store's files.

/// Adds signed 64-bit little-endian numbers, wrapping. What does not have 8 bytes counts as 0.
std::shared_ptr<rocksdb::MergeOperator> NewInt64AddOperator();
/// Keeps what is larger, or smaller, in the order of its bytes.
std::shared_ptr<rocksdb::MergeOperator> NewBytesMaxOperator();
std::shared_ptr<rocksdb::MergeOperator> NewBytesMinOperator();

/// Lets RocksDB make them by name, for example where it loads a database's OPTIONS file. To be
/// called once or more.
void RegisterMergeOperators();

}  // namespace breccia
