#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace breccia::base {

/// Bytes of files in whole pages, and those that the system has cached. Of files that this user may
/// not write it says that all are.
struct CachedBytes {
  std::uint64_t all = 0;
  std::uint64_t cached = 0;

  [[nodiscard]] double share() const {
    return all == 0 ? 0 : static_cast<double>(cached) / static_cast<double>(all);
  }
};

/// Adds an open file.
/// Errors  IOError, with its path.
Status count_cached(int file, const std::string& path, CachedBytes* count);

}  // namespace breccia::base
