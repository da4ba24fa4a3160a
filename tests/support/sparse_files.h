#pragma once

#include <rocksdb/file_system.h>

#include <memory>

#include "wal/files_env.h"

namespace breccia::testing {

/// Real buffered files that take up only what is written to them. A store in a folder in memory
/// then opens in a few milliseconds, since nothing has to clear or read the rest of its segments.
[[nodiscard]] std::shared_ptr<wal::Files> make_sparse_files();

/// RocksDB's files of the operating system, likewise: nothing is reserved for them ahead.
[[nodiscard]] std::shared_ptr<rocksdb::FileSystem> make_sparse_file_system();

/// For Options::rocksdb.env, of a store or of RocksDB: the default Env with such files. Owner: the
/// process.
[[nodiscard]] rocksdb::Env* sparse_env();

}  // namespace breccia::testing
