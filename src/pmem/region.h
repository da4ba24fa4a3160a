#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

/// Persistent regions: a mapped range of bytes with an explicit persist operation.
///
/// A program stores into data() as into memory. What it stored becomes durable when a persist()
/// that covers it returns, and not before: until then each 64-byte line may or may not survive a
/// power cut, at any of the 8-byte stores into it. Kinds:
///   dax   persistent memory mapped by libpmem2; persist flushes cache lines and fences
///   file  an ordinary file; persist copies the changed lines to a redo log, one fsync, and pages
///         are written back later
///   sim   memory that records persists and enumerates the images a power cut could leave

namespace breccia::pmem {

enum class RegionKind { kDax, kFile, kSim };

/// Bytes [offset, offset + bytes) of a region.
struct Range {
  std::uint64_t offset;
  std::uint64_t bytes;
};

class Region {
 public:
  virtual ~Region() = default;
  [[nodiscard]] virtual RegionKind kind() const = 0;
  /// Shape   size() bytes, 4096-aligned; stays in place for the life of the object.
  [[nodiscard]] virtual std::byte* data() = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Makes the stores to all of `ranges` durable, as one atomic step for kind kFile.
  /// Shape   ranges in any order; they may overlap and be empty.
  /// Errors  IOError, NoSpace (kFile): the region is bad from now on and refuses every call.
  /// Threads any number; stores elsewhere may go on. A line that two callers store into becomes
  ///         durable with the first of them, as far as the other has come.
  /// Cost    a flush of each line and one fence (kDax); one record and one sync for all callers
  ///         that came while the one before was written (kFile).
  [[nodiscard]] virtual Status persist(std::span<const Range> ranges) = 0;
  [[nodiscard]] Status persist(std::uint64_t offset, std::uint64_t bytes) {
    const Range one{offset, bytes};
    return persist(std::span(&one, 1));
  }
};

/// Maps the DAX file at `path`, created with `bytes` bytes if missing.
/// Errors  NotSupported: the file system has no DAX.
Result<std::unique_ptr<Region>> open_dax_region(const std::string& path, std::uint64_t bytes);

/// Maps the DAX file that is open as descriptor `file`, which may be closed then, for whoever keeps
/// others off it and its name and length durable himself.
/// Errors  NotSupported: the file system has no DAX.
Result<std::unique_ptr<Region>> map_dax_file(int file);

/// Opens an ordinary file region at `path` (redo log at `path` + ".redo"), created with `bytes`
/// bytes if missing; replays a redo log that a crash left.
/// Errors  Corruption: the redo log's committed part is damaged.
Result<std::unique_ptr<Region>> open_file_region(const std::string& path, std::uint64_t bytes);

/// True if `path` (an existing folder) lies on a file system whose files can be mapped with DAX.
bool supports_dax(const std::string& path);

}  // namespace breccia::pmem
