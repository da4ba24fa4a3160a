#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "pmem/disk.h"

/// Small files that are replaced as a whole: after a crash there is the new one, or the one before.

namespace breccia::pmem {

/// Reads a file of just so many bytes. False: there is none.
/// Errors  Corruption: it has another size; IOError.
[[nodiscard]] Result<bool> read_small_file(Disk* disk, const std::string& path,
                                           std::span<std::byte> into);
/// Reads a file whatever its size. None: there is none.
[[nodiscard]] Result<std::optional<std::string>> read_small_file(Disk* disk,
                                                                 const std::string& path);
/// Durable on return.
/// Errors  IOError, NoSpace: this one is there, or the one before it.
[[nodiscard]] Status replace_small_file(Disk* disk, const std::string& path,
                                        std::span<const std::byte> bytes);

}  // namespace breccia::pmem
