#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.h"

namespace breccia::base {

/// Loads `bytes` (0 to 8) bytes at `from` as a big-endian word, zero-padded at its low end, so that
/// comparing words compares the bytes as memcmp does.
inline std::uint64_t load_big_endian(const char* from, std::size_t bytes) {
  BRECCIA_ASSERT(bytes <= 8);
  std::uint64_t word = 0;
  std::memcpy(&word, from, bytes);
  return __builtin_bswap64(word);
}

/// The same for exactly eight bytes.
inline std::uint64_t load_big_endian_8(const char* from) {
  std::uint64_t word;
  std::memcpy(&word, from, 8);
  return __builtin_bswap64(word);
}

/// Rounds `value` up to a multiple of `unit`, a power of two.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}

static_assert(std::endian::native == std::endian::little, "formats are little-endian in memory");

/// memcpy for what has 8 bytes more often than not: a call costs more than the copy.
inline void copy_short(void* to, const void* from, std::size_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace breccia::base
