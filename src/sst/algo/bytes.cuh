#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "exec/group.h"
#include "record/columns.h"

/// Words in bytes that lie anywhere, for every executor.

namespace breccia::sst::algo {

/// Bytes behind the end of a buffer that may be read: loads take whole words.
inline constexpr std::uint64_t kPadBytes = 16;

BRECCIA_HD inline std::uint64_t swap_word(std::uint64_t word) {
#if defined(__CUDA_ARCH__)
  return record::swap_bytes(word);
#else
  return __builtin_bswap64(word);
#endif
}

/// The 8 bytes from there on, little endian.
BRECCIA_HD inline std::uint64_t load_word(const char* from) {
#if defined(__CUDA_ARCH__)
  // A device loads what is aligned; both words have bytes that are wanted.
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  const auto* const word = reinterpret_cast<const std::uint64_t*>(at & ~std::uintptr_t{7});
  const int bits = static_cast<int>(at & 7) * 8;
  return bits == 0 ? word[0] : word[0] >> bits | word[1] << (64 - bits);
#else
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
#endif
}

/// The 4 bytes from there on, little endian.
BRECCIA_HD inline std::uint32_t load_half(const char* from) {
  std::uint32_t half = 0;
  for (int i = 0; i < 4; ++i) {
    half |= static_cast<std::uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return half;
}

/// The first `bytes` (at most 8) bytes of `word`, little endian.
BRECCIA_HD inline void store_bytes(char* to, std::uint64_t word, std::uint64_t bytes) {
#if defined(__CUDA_ARCH__)
  for (std::uint64_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(word >> (8 * i));
#else
  std::memcpy(to, &word, bytes);
#endif
}

BRECCIA_HD inline void store_zeros(char* to, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i) to[i] = 0;
}

/// Ones over the first `bytes` (0 to 8) bytes of a big-endian word.
BRECCIA_HD inline std::uint64_t first_bytes_mask(std::uint64_t bytes) {
  return bytes == 0 ? 0 : ~std::uint64_t{0} << (64 - 8 * bytes);
}

BRECCIA_HD inline std::uint32_t varint_bytes(std::uint32_t value) {
  std::uint32_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

BRECCIA_HD inline char* store_varint(char* to, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<char>(value | 0x80);
  *to++ = static_cast<char>(value);
  return to;
}

/// What is read from a stretch of bytes, and never beyond its end.
struct Reader {
  const char* at;
  const char* end;

  BRECCIA_HD bool varint(std::uint32_t* value) {
    std::uint64_t sum = 0;
    for (int shift = 0; shift <= 28 && at < end; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at++);
      sum |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        *value = static_cast<std::uint32_t>(sum);
        return sum <= ~std::uint32_t{0};
      }
    }
    return false;
  }
};

/// Copies bytes by all lanes of a group.
/// Shape   kPadBytes behind `from + bytes` may be read.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void copy_bytes(const Group& group, char* to, const char* from, std::uint64_t bytes) {
  if constexpr (std::is_same_v<Group, exec::HostGroup<Group::kWidth>>) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  } else {
    const auto width = static_cast<std::uint64_t>(Group::kWidth);
    std::uint64_t front = (8 - (reinterpret_cast<std::uintptr_t>(to) & 7)) & 7;
    front = front < bytes ? front : bytes;
    const std::uint64_t words = (bytes - front) / 8;
    const std::uint64_t back = front + 8 * words;
    group.each_lane([&](int lane) {
      const auto l = static_cast<std::uint64_t>(lane);
      for (std::uint64_t i = l; i < front; i += width) to[i] = from[i];
      for (std::uint64_t i = l; i < words; i += width) {
        *reinterpret_cast<std::uint64_t*>(to + front + 8 * i) = load_word(from + front + 8 * i);
      }
      for (std::uint64_t i = back + l; i < bytes; i += width) to[i] = from[i];
    });
  }
}

}  // namespace breccia::sst::algo
