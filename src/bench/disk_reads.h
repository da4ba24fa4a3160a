#pragma once

#include <cstdint>

#include "base/result.h"

namespace breccia::bench {

/// Pages of 4 KiB that all cores together read at random places of a file in a second, past the
/// system's cache (O_DIRECT through io_uring), many at once; 0 where a file system or a sandbox
/// denies that.
/// Shape   the file's first `bytes` are on its medium.
/// Bound   a second.
/// Errors  IOError.
Result<double> direct_reads_per_s(int file, std::uint64_t bytes);

}  // namespace breccia::bench
