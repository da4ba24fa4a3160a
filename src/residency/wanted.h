#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sst/table.h"

namespace breccia::residency {

/// What the keys of a table would take, by its properties.
struct Wanted {
  std::uint64_t keys = 0;
  std::uint64_t memory_bytes = 0;  // of a backend
};

/// Errors  as of FileReader::read(), as far as they are known before blocks are read.
Result<Wanted> wanted_by(const sst::Table& table);
Result<Wanted> wanted_by(const std::string& path);

}  // namespace breccia::residency
