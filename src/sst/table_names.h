#pragma once

#include <cstdint>
#include <string>

namespace breccia::sst {

/// What names tables: a session, as RocksDB's properties have it, and numbers in it. RocksDB's
/// caches tell tables apart by both, so no two tables ever have the same.
struct TableNames {
  std::string session;
  std::uint64_t first_number = 0;
};

/// Numbers for `count` tables of this process; none belongs to a session that another process has,
/// if this one was forked.
/// Threads any.
[[nodiscard]] TableNames take_table_names(std::uint64_t count);

}  // namespace breccia::sst
