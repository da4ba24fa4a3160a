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
///         are written back later; its memory may be the caller's
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
  /// Makes the stores to all of `ranges` durable, as one atomic step for kind kFile that has memory
  /// of its own.
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

/// Opens an ordinary file region whose data() is `memory`, the caller's, for whoever cannot have it
/// elsewhere or twice (a network card's region, say); else as open_file_region().
/// Shape   `memory` is 4096-aligned, in whole lines of 64 bytes, and all zeros; its size is the
///         region's.
/// Order   no more than on DAX: what a persist() covers is durable when it returns. Of what nobody
///         has persisted, any of the 8-byte stores may become durable at any moment, and of a
///         persist() that a crash interrupts any part may be there.
/// Errors  InvalidArgument: the region exists with another size. Busy: it is open elsewhere.
///         Corruption: the redo log's committed part is damaged. After an error `memory` holds
///         anything: who opens again brings zeros.
/// Owner   `memory` must outlive the region, which leaves in it what it holds.
/// Threads nobody else uses `memory` before the call returns. Then anybody may store into it at any
///         time, by aligned 8-byte stores: other processes and network cards, too, whose stores a
///         persist() covers if they had arrived when it was called.
/// Cost    a persist writes all lines that it covers, changed or not; 1 MiB of memory, and twice
///         the largest record.
Result<std::unique_ptr<Region>> open_file_region_over(const std::string& path,
                                                      std::span<std::byte> memory);

/// Removes a region, and its redo log, if there is one; the next open of that path finds none.
/// Errors  IOError: it may be there.
/// Shape   nobody has it open.
[[nodiscard]] Status remove_region(const std::string& path);

/// True if `path` (an existing folder) lies on a file system whose files can be mapped with DAX.
bool supports_dax(const std::string& path);

}  // namespace breccia::pmem
