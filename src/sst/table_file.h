#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <functional>
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

/// How a table of the system's is written: to the disk as it comes, and
struct TableFileOptions {
  /// What is written leaves in whole huge pages, so that the system's cache has it in such, and
  /// what begins or ends within one waits for the rest of it, or the sync (tree/whole_page_env.h
  /// says why).
  bool by_whole_pages = false;
  /// It is written beside what goes first (base/precedence.h),
  bool gives_way = false;
  /// but while this says that somebody waits for it; empty: nobody does. Threads any.
  std::function<bool()> is_urgent = nullptr;
};

/// A new file of the system's.
/// Shape   behind the last write() of all, and before sync(), no place is left out.
/// Errors  IOError: there is one, or none can be made; NoSpace. By whole pages write() has
///         MemoryLimit, too.
/// Threads write() any, at different places.
Result<std::unique_ptr<TableFile>> create_table_file(const std::string& path,
                                                     const TableFileOptions& options);

/// A new file of an Env's, in the place of one that has the name; that one's other names keep their
/// bytes.
/// Shape   write() only goes on where the last one ended.
/// Owner   `env` lives longer. What is left is the caller's to delete.
/// Threads one owner.
Result<std::unique_ptr<TableFile>> create_table_file(rocksdb::Env* env, const std::string& path,
                                                     const rocksdb::DBOptions& options);

}  // namespace breccia::sst
