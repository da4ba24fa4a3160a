#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "base/assert.h"

namespace breccia::base {

/// Loads `bytes` (0 to 8) bytes at `from` as a big-endian word, zero-padded at its low end, so that
/// comparing words compares the bytes as memcmp does.
/// Cost    no call: two loads that overlap, or three.
inline std::uint64_t load_big_endian(const char* from, std::size_t bytes) {
  BRECCIA_ASSERT(bytes <= 8);
  std::uint64_t word = 0;
  if (bytes >= 4) {
    std::uint32_t first;
    std::uint32_t last;
    std::memcpy(&first, from, 4);
    std::memcpy(&last, from + bytes - 4, 4);
    word = first | std::uint64_t{last} << 8 * (bytes - 4);
  } else if (bytes > 0) {
    for (const std::size_t at : {std::size_t{0}, bytes / 2, bytes - 1}) {
      word |= std::uint64_t{static_cast<unsigned char>(from[at])} << 8 * at;
    }
  }
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

/// memcpy without a call, up to a few hundred bytes: for many strings of much the same length,
/// whose branches are foreseen.
[[gnu::always_inline]] inline void copy_inline(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kInlineMax = 256;
  auto* const out = static_cast<char*>(to);
  const auto* const in = static_cast<const char*>(from);
  // The last block of a length overlaps the one before.
  if (bytes > kInlineMax) {
    std::memcpy(out, in, bytes);
  } else if (bytes >= 16) {
    for (std::size_t at = 0; at + 16 < bytes; at += 16) std::memcpy(out + at, in + at, 16);
    std::memcpy(out + bytes - 16, in + bytes - 16, 16);
  } else if (bytes >= 8) {
    std::memcpy(out, in, 8);
    std::memcpy(out + bytes - 8, in + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(out, in, 4);
    std::memcpy(out + bytes - 4, in + bytes - 4, 4);
  } else if (bytes > 0) {
    for (const std::size_t at : {std::size_t{0}, bytes / 2, bytes - 1}) out[at] = in[at];
  }
}

/// As Slice::compare, without a call where the first 16 bytes tell: for keys that do.
template <class Slice>
[[gnu::always_inline]] inline int compare_inline(const Slice& a, const Slice& b) {
  constexpr std::size_t kWord = 8;
  if (a.size() >= 2 * kWord && b.size() >= 2 * kWord) {
    for (const std::size_t at : {std::size_t{0}, kWord}) {
      const std::uint64_t own = load_big_endian_8(a.data() + at);
      const std::uint64_t other = load_big_endian_8(b.data() + at);
      if (own != other) return own < other ? -1 : 1;
    }
  }
  return a.compare(b);
}

}  // namespace breccia::base
