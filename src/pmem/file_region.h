#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pmem/disk.h"
#include "pmem/region.h"

namespace breccia::pmem {

struct FileRegionOptions {
  /// Records that would grow the redo log beyond this make the region write its pages back first.
  /// A single larger record still fits: the log grows for it.
  std::uint64_t redo_bytes_max;
  /// The caller's memory to work in, as open_file_region_over() has it; empty: its own.
  std::span<std::byte> memory = {};
};

/// 64 MiB, or the region's size if that is less, but 1 MiB at least.
FileRegionOptions default_file_region_options(std::uint64_t region_bytes);

/// open_file_region() or, with `options.memory`, open_file_region_over() on a given disk. `bytes` 0
/// opens an existing region of any size; with memory it is the memory's size.
/// Errors  NotFound: `bytes` is 0 and there is none. InvalidArgument: it has another size.
///         Busy: it is open elsewhere. Corruption: the redo log is damaged or missing.
/// Cost    reads the file; writes the pages that the redo log names; four syncs, two if the log
///         is empty.
Result<std::unique_ptr<Region>> open_file_region_on(std::shared_ptr<Disk> disk,
                                                    const std::string& path, std::uint64_t bytes,
                                                    const FileRegionOptions& options);

}  // namespace breccia::pmem
