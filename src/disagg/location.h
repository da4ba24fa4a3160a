#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/assert.h"

/// Where a value lies in the memory of which server, in one word, as buckets of the hash index have
/// it: docs/format/disagg.md.

namespace breccia::disagg {

constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kKeyBytesMax = 64 << 10;
constexpr std::uint64_t kValueBytesMax = 1 << 20;
constexpr std::uint64_t kNodesMax = 256;
constexpr std::uint64_t kLinesOfNode = std::uint64_t{1} << 38;

/// Blocks have one of a few sizes: 1 to 8 lines, and from there on four between a power of two and
/// the next.
constexpr std::uint32_t kSizeClasses = 53;

/// Lines of a block of a class.
constexpr std::uint64_t lines_of(std::uint32_t size_class) {
  BRECCIA_ASSERT(size_class < kSizeClasses);
  if (size_class < 8) return size_class + 1;
  const std::uint32_t step = size_class - 8;
  return std::uint64_t{5 + step % 4} << (1 + step / 4);
}

/// The smallest class that has so many bytes.
constexpr std::uint32_t class_of(std::uint64_t bytes) {
  BRECCIA_ASSERT(bytes > 0);
  const std::uint64_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  if (lines <= 8) return static_cast<std::uint32_t>(lines - 1);
  // 2^k < lines <= 2^(k+1), in quarters of 2^k.
  const auto k = static_cast<std::uint32_t>(std::bit_width(lines - 1) - 1);
  const std::uint64_t quarter = std::uint64_t{1} << (k - 2);
  const auto step = static_cast<std::uint32_t>((lines - (4 * quarter) + quarter - 1) / quarter);
  return 8 + 4 * (k - 3) + step - 1;
}

/// A block of a memory server.
struct Location {
  std::uint32_t node = 0;
  std::uint32_t size_class = 0;
  std::uint64_t line = 0;  // from the beginning of the server's pool; 0 is none's

  [[nodiscard]] std::uint64_t offset() const { return line * kLineBytes; }
  [[nodiscard]] std::uint64_t bytes() const { return lines_of(size_class) * kLineBytes; }
  friend bool operator==(const Location&, const Location&) = default;
};

/// An entry of a bucket: 12 bits of the key's hash, 6 of the size class, 8 of the node, 38 of the
/// line. 0: none.
using Slot = std::uint64_t;

constexpr std::uint32_t kFingerprintBits = 12;

/// From bits of the hash by which no bucket is chosen.
constexpr std::uint32_t fingerprint_of(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash & ((1U << kFingerprintBits) - 1));
}
constexpr std::uint32_t fingerprint_in(Slot slot) { return static_cast<std::uint32_t>(slot >> 52); }
constexpr Slot slot_of(std::uint32_t fingerprint, const Location& location) {
  BRECCIA_ASSERT(location.line > 0 && location.line < kLinesOfNode);
  BRECCIA_ASSERT(location.node < kNodesMax && location.size_class < kSizeClasses);
  return std::uint64_t{fingerprint} << 52 | std::uint64_t{location.size_class} << 46 |
         std::uint64_t{location.node} << 38 | location.line;
}
/// Of what came from elsewhere: `size_class` may be one that there is not.
constexpr Location location_in(Slot slot) {
  return {.node = static_cast<std::uint32_t>(slot >> 38 & (kNodesMax - 1)),
          .size_class = static_cast<std::uint32_t>(slot >> 46 & 63),
          .line = slot & (kLinesOfNode - 1)};
}

/// Whether there may be such a block.
constexpr bool is_block(const Location& location) {
  return location.line > 0 && location.line < kLinesOfNode && location.size_class < kSizeClasses;
}
/// The same in a memory of so many bytes.
constexpr bool is_block_of(const Location& location, std::uint64_t bytes) {
  return is_block(location) && location.offset() + location.bytes() <= bytes;
}

}  // namespace breccia::disagg
