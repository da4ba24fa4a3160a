#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <memory>

#include "facade/db/core.h"

namespace breccia::facade {

/// An iterator over what `seen` sees, like RocksDB's. It keeps the database open.
/// Shape   options: those of make_iterator (ordered/read/iterator.h); tailing iterators go forward
///         only.
[[nodiscard]] std::unique_ptr<rocksdb::Iterator> new_iterator(const Core& core,
                                                              const rocksdb::ReadOptions& options,
                                                              const Seen& seen);

/// Errors  NotSupported: what RocksDB's iterators do not support either.
Status check_iterator_options(const rocksdb::ReadOptions& options);

}  // namespace breccia::facade
