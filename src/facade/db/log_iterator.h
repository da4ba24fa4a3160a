#pragma once

#include <breccia/changes.h>
#include <rocksdb/transaction_log.h>

#include <memory>

#include "ordered/engine.h"

namespace breccia::facade {

/// The change stream as RocksDB's iterator over its log.
///
/// Positions are sequence numbers: a batch of n writes that ends at position p has the numbers from
/// p - n + 1 to p, so numbers grow from batch to batch with gaps between, a snapshot's number is
/// that of the last write it sees, and what follows a batch is asked for with its first number + n.
///
/// Errors  as RocksDB's: NotFound if `sequence` was not written yet. Where the log does not reach
///         back to it the first batch that there is comes first, as its number tells.
[[nodiscard]] Result<std::unique_ptr<rocksdb::TransactionLogIterator>> updates_since(
    std::shared_ptr<ordered::Engine> engine, rocksdb::SequenceNumber sequence);

}  // namespace breccia::facade
