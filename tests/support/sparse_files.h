#pragma once

#include <memory>

#include "wal/files_env.h"

namespace breccia::testing {

/// Real buffered files that take up only what is written to them. A store in a folder in memory
/// then opens in a few milliseconds, since nothing has to clear or read the rest of its segments.
[[nodiscard]] std::shared_ptr<wal::Files> make_sparse_files();

/// For Options::rocksdb.env: the default Env, with a log in such files. Owner: the process.
[[nodiscard]] rocksdb::Env* sparse_env();

}  // namespace breccia::testing
