#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <functional>
#include <memory>

#include "residency/file_set.h"

namespace breccia::ordered {

/// An iterator of RocksDB's on a family's tree.
using MakeIterator = std::function<std::unique_ptr<rocksdb::Iterator>()>;

/// True if an iterator with these options finds in files what RocksDB's would: not one that counts
/// what it skips, keeps to RocksDB's cache or to a deadline, reads ahead as it is told, or has its
/// keys stay where they are.
[[nodiscard]] bool reads_files(const rocksdb::ReadOptions& options);

/// The tree's live entries as `below` has them, read in files where the host has their keys: from a
/// key on, in order. Whatever goes backward, or comes to what files do not know, goes on with
/// RocksDB's iterator, which is made then, until the next seek.
///
/// Shape   files.host_reads(); reads_files(options). Of `options` the upper bound; a lower bound is
///         the caller's to keep.
/// Owner   files, and the bounds of `options`, live longer.
/// Threads one owner.
[[nodiscard]] std::unique_ptr<rocksdb::Iterator> make_files_iterator(
    const residency::FileSet& files, const rocksdb::ReadOptions& options, MakeIterator below);

}  // namespace breccia::ordered
