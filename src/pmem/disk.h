#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

/// The file system as regions use it: a seam for fault injection and crash simulation.

namespace breccia::pmem {

/// One open file, locked against a second opener until it is closed.
/// Threads one at a time.
class DiskFile {
 public:
  virtual ~DiskFile() = default;
  [[nodiscard]] virtual Result<std::uint64_t> size() = 0;
  /// Errors  IOError: the bytes are not all there, or the device failed.
  [[nodiscard]] virtual Status read(std::uint64_t offset, std::span<std::byte> into) = 0;
  /// Writes all of `from`, growing the file if needed; nothing is durable before sync().
  /// Errors  IOError, NoSpace: how much was written is unknown.
  [[nodiscard]] virtual Status write(std::uint64_t offset, std::span<const std::byte> from) = 0;
  /// Makes what was written durable. A failed sync is final: a second one may answer ok without
  /// having written anything.
  [[nodiscard]] virtual Status sync() = 0;
};

/// Names and opens files.
/// Threads one at a time.
class Disk {
 public:
  virtual ~Disk() = default;
  /// Errors  NotFound; Busy: somebody has it open.
  [[nodiscard]] virtual Result<std::unique_ptr<DiskFile>> open(const std::string& path) = 0;
  /// A file of `bytes` zero bytes, its space reserved; replaces what the file held.
  /// Errors  NoSpace now and not later; Busy.
  [[nodiscard]] virtual Result<std::unique_ptr<DiskFile>> create(const std::string& path,
                                                                 std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Makes creations and renames in the folder of `path` durable.
  [[nodiscard]] virtual Status sync_folder_of(const std::string& path) = 0;
};

std::shared_ptr<Disk> real_disk();

}  // namespace breccia::pmem
