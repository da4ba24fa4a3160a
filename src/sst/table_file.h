#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace breccia::sst {

/// The file that a table is written to.
class TableFile {
 public:
  virtual ~TableFile() = default;

  /// Errors  IOError, NoSpace: how much was written is unknown.
  [[nodiscard]] virtual Status write(const char* bytes, std::uint64_t count,
                                     std::uint64_t offset) = 0;
  /// What was written is on the medium when it returns.
  [[nodiscard]] virtual Status sync() = 0;
};

/// A new file of the system's.
/// Errors  IOError: there is one, or none can be made; NoSpace.
/// Threads write() any, at different places.
Result<std::unique_ptr<TableFile>> create_table_file(const std::string& path);

/// A new file of an Env's, in the place of one that has the name; that one's other names keep their
/// bytes.
/// Shape   write() only goes on where the last one ended.
/// Owner   `env` lives longer. What is left is the caller's to delete.
/// Threads one owner.
Result<std::unique_ptr<TableFile>> create_table_file(rocksdb::Env* env, const std::string& path,
                                                     const rocksdb::DBOptions& options);

}  // namespace breccia::sst
