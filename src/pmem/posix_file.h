#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

/// What the real disk and the DAX region share: descriptors, errors, creation.

namespace breccia::pmem {

using base::Descriptor;

/// The Status of `error`, an errno value: NoSpace, NotFound or IOError.
Status status_of_errno(const std::string& what, int error);

/// Opens an existing file for reading and writing and locks it.
/// Errors  NotFound; Busy: somebody has it open.
Result<Descriptor> open_locked(const std::string& path);

/// Opens or creates a file, locks it and makes it `bytes` zero bytes with their space reserved.
Result<Descriptor> create_locked(const std::string& path, std::uint64_t bytes);

Status rename_file(const std::string& from, const std::string& to);

/// Makes creations and renames in the folder of `path` durable.
Status sync_folder_of_file(const std::string& path);

}  // namespace breccia::pmem
