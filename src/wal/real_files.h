#pragma once

#include <memory>

#include "wal/files.h"

/// Parts of the real file system that tests and `doctor` ask for. Private to the log.

namespace breccia::wal {

enum class Medium { kBuffered, kTmpfs, kDax };
enum class Engine { kRing, kPwrite };

/// The medium under folder `dir`.
Medium medium_of(const std::string& dir);

/// As real_files(), with the kind of write() fixed and, if `force_buffered`, nothing ever mapped.
std::shared_ptr<Files> real_files_with(Engine engine, bool force_buffered);

}  // namespace breccia::wal
