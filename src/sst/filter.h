#pragma once

#include <cstdint>
#include <string>

namespace breccia::sst {

/// A Bloom filter of RocksDB's, of lines of 64 bytes (FastLocalBloom).
/// Shape   lines, then five bytes that say what it is.
/// Source  RocksDB 7.8, format_version 5; readers take it at any version.
struct FilterShape {
  std::uint64_t lines = 0;
  std::uint32_t probes = 0;

  /// For that many different hashes, at `millibits` / 1000 bits a key.
  static FilterShape of(std::uint64_t hashes, std::uint32_t millibits);

  [[nodiscard]] std::uint64_t bytes() const { return lines * kLineBytes; }
  /// What stands behind the lines.
  [[nodiscard]] std::string tail() const;

  static constexpr std::uint64_t kLineBytes = 64;
};

}  // namespace breccia::sst
