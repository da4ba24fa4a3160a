#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace breccia::testing {

/// Bytes of maps of shared memory that this process has by huge pages: of those whose name, as
/// /proc/self/smaps has it, ends so.
inline std::uint64_t huge_bytes_of_map(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  const std::string field = "ShmemPmdMapped:";
  bool is_it = false;
  std::uint64_t kib = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) is_it = line.ends_with(name);
    if (is_it && line.starts_with(field)) kib += std::stoull(line.substr(field.size()));
  }
  return kib << 10;
}

}  // namespace breccia::testing
