#pragma once

#include <rocksdb/options.h>

#include <string>

namespace breccia::sst {

/// A session, as properties of tables have it, that no other table has. RocksDB's caches tell
/// tables apart by it and the number beside it; its backups, which are shared by databases, by it
/// and the number that the database gave. So it must not be a process's.
/// Threads any.
[[nodiscard]] std::string new_session();

/// The host, as properties of tables have it.
[[nodiscard]] std::string host_id(const rocksdb::DBOptions& options);

}  // namespace breccia::sst
