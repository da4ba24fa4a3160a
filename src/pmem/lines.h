#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"

/// Cache lines and pages, the units in which bytes reach a medium.

namespace breccia::pmem {

inline constexpr std::uint64_t kWordBytes = 8;
inline constexpr std::uint64_t kLineBytes = 64;
inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::size_t kWordsPerLine = kLineBytes / kWordBytes;

using Line = std::array<std::uint64_t, kWordsPerLine>;
static_assert(sizeof(Line) == kLineBytes);

/// Copies the line at `from` (64-byte aligned) word by word: no word is torn if another thread
/// stores into the line meanwhile.
inline Line load_line(const std::byte* from) {
  BRECCIA_INVARIANT(reinterpret_cast<std::uintptr_t>(from) % kLineBytes == 0);
  const auto* words = reinterpret_cast<const std::uint64_t*>(from);
  Line line;
  for (std::size_t i = 0; i < kWordsPerLine; ++i) {
    line[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
  }
  return line;
}

inline void store_line(std::byte* to, const Line& line) {
  BRECCIA_INVARIANT(reinterpret_cast<std::uintptr_t>(to) % kLineBytes == 0);
  std::memcpy(to, &line, kLineBytes);
}

constexpr std::uint64_t line_start(std::uint64_t offset) { return offset & ~(kLineBytes - 1); }

/// Offset behind the last line that [offset, offset + bytes) touches; `offset` if it is empty.
constexpr std::uint64_t lines_end(std::uint64_t offset, std::uint64_t bytes) {
  return bytes == 0 ? line_start(offset) : base::round_up(offset + bytes, kLineBytes);
}

}  // namespace breccia::pmem
