#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "pmem/disk.h"

/// The file that makes a folder a store of the hash engine, and says from where on its log counts.

namespace breccia::hash {

/// Its name in the store's folder.
inline constexpr char kMarkName[] = "HASH";

struct Mark {
  std::uint64_t store_id = 0;  // of the log; 0: there is no store
  std::uint64_t from = 0;      // all below was cleaned
};

/// Reads and replaces the mark of one store.
/// Threads one at a time.
class MarkFile {
 public:
  MarkFile(std::shared_ptr<pmem::Disk> disk, std::string folder);

  /// Errors  Corruption: what is there is no mark; IOError. None is no error.
  [[nodiscard]] Result<Mark> read() const;
  /// Durable on return.
  /// Errors  IOError, NoSpace: this mark is there, or the one before it.
  [[nodiscard]] Status write(const Mark& mark) const;

 private:
  const std::shared_ptr<pmem::Disk> disk_;
  const std::string path_;
};

}  // namespace breccia::hash
