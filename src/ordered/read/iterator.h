#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <functional>
#include <memory>

#include "ordered/state.h"

namespace breccia::ordered {

/// An iterator over the entries of `family` that `pin` sees, in key order, both ways; a
/// rocksdb::Iterator like RocksDB's own.
///
/// It merges a cursor over the memtable, one over each run, and the tree's iterator; at each key
/// the newest source decides.
///
/// Shape   of `options`: bounds, prefix_same_as_start, fill_cache and what else concerns the tree.
/// `repin`: where to get a newer pin for Refresh(), and for each seek if options.tailing; may be
/// empty.
/// Owner   the iterator holds the pin, and with it what it reads.
/// Errors  in status(): Corruption and InvalidArgument of merge operators, and the tree's.
/// Threads one owner.
[[nodiscard]] std::unique_ptr<rocksdb::Iterator> make_iterator(const rocksdb::ReadOptions& options,
                                                               const Pin& pin,
                                                               const FamilyView& family,
                                                               std::function<Pin()> repin);

}  // namespace breccia::ordered
