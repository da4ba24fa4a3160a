#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/group.h"
#include "sst/algo/bytes.cuh"

#if !defined(__CUDACC__)
#include <xxhash.h>
#endif

/// XXH3's 64-bit hash in two forms: the final one, of blocks, for their checksums; the draft that
/// RocksDB's Bloom filter keeps, of keys. Seed 0, the default secret.
/// Source  the xxHash specification; design of the draft: xxHash 0.7.

namespace breccia::sst::algo::xxh3 {

/// Lanes that make a block's hash together.
inline constexpr int kLanes = 8;

inline constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
inline constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
inline constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
inline constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
inline constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;
inline constexpr std::uint64_t kPrime32_1 = 0x9E3779B1;
inline constexpr std::uint64_t kPrime32_2 = 0x85EBCA77;
inline constexpr std::uint64_t kPrime32_3 = 0xC2B2AE3D;
inline constexpr std::uint64_t kFinalFactor = 0x165667919E3779F9;
inline constexpr std::uint64_t kDraftFactor = kPrime3;
inline constexpr std::uint64_t kSecretBytes = 192;
inline constexpr std::uint64_t kStripeBytes = 64;
inline constexpr std::uint64_t kStripesPerBlock = 16;

/// Word `w` of the secret, little endian.
BRECCIA_HD inline std::uint64_t secret_word(std::uint64_t w) {
  static constexpr std::uint64_t kWords[kSecretBytes / 8] = {
      0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
      0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
      0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
      0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
      0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
      0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};
  return kWords[w];
}

/// The 8 bytes of the secret from `offset` on.
BRECCIA_HD inline std::uint64_t secret(std::uint64_t offset) {
  const std::uint64_t bits = offset % 8 * 8;
  const std::uint64_t low = secret_word(offset / 8);
  return bits == 0 ? low : low >> bits | secret_word(offset / 8 + 1) << (64 - bits);
}

BRECCIA_HD inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return (a * b) ^ __umul64hi(a, b);
#else
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
#endif
}

BRECCIA_HD inline std::uint64_t avalanche(std::uint64_t x, std::uint64_t factor) {
  x ^= x >> 37;
  x *= factor;
  return x ^ x >> 32;
}

BRECCIA_HD inline std::uint64_t low_half(std::uint64_t x) { return x & 0xFFFFFFFF; }

/// What 16 bytes from `at` on add.
BRECCIA_SINGLE_SOURCE
template <class Bytes>
BRECCIA_HD std::uint64_t mix_16(const Bytes& bytes, std::uint64_t at, std::uint64_t secret_at) {
  return fold(bytes.word(at) ^ secret(secret_at), bytes.word(at + 8) ^ secret(secret_at + 8));
}

/// The hash of 17 to 240 bytes, in either form.
BRECCIA_SINGLE_SOURCE
template <class Bytes>
BRECCIA_HD std::uint64_t hash_middle(const Bytes& bytes, std::uint64_t n, std::uint64_t factor) {
  std::uint64_t sum = n * kPrime1;
  if (n <= 128) {
    for (std::uint64_t i = (n - 1) / 32 + 1; i-- > 0;) {
      sum += mix_16(bytes, 16 * i, 32 * i);
      sum += mix_16(bytes, n - 16 * (i + 1), 32 * i + 16);
    }
    return avalanche(sum, factor);
  }
  for (std::uint64_t i = 0; i < 8; ++i) sum += mix_16(bytes, 16 * i, 16 * i);
  sum = avalanche(sum, factor);
  for (std::uint64_t i = 8; i < n / 16; ++i) sum += mix_16(bytes, 16 * i, 16 * (i - 8) + 3);
  sum += mix_16(bytes, n - 16, 136 - 17);
  return avalanche(sum, factor);
}

/// The start of accumulator `lane` of 8.
BRECCIA_HD inline std::uint64_t first_accumulator(int lane) {
  static constexpr std::uint64_t kFirst[8] = {kPrime32_3, kPrime1,    kPrime2, kPrime3,
                                              kPrime4,    kPrime32_2, kPrime5, kPrime32_1};
  return kFirst[lane];
}

BRECCIA_HD inline std::uint64_t scramble(std::uint64_t accumulator, std::uint64_t key) {
  accumulator ^= accumulator >> 47;
  accumulator ^= key;
  return accumulator * kPrime32_1;
}

/// What a word of a stripe adds to its accumulator besides itself, or its neighbour's in the final
/// form.
BRECCIA_HD inline std::uint64_t product(std::uint64_t word, std::uint64_t key) {
  const std::uint64_t keyed = word ^ key;
  return low_half(keyed) * (keyed >> 32);
}

/// The final hash of more than 240 bytes, by 8 lanes: lane l has accumulator l.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t hash_long(const Group& group, const char* bytes, std::uint64_t n) {
  static_assert(Group::kWidth == kLanes);
  const std::uint64_t stripes = (n - 1) / kStripeBytes;
  const auto accumulators = group.per_lane([&](int lane) {
    const auto l = static_cast<std::uint64_t>(lane);
    std::uint64_t sum = first_accumulator(lane);
    for (std::uint64_t stripe = 0; stripe < stripes; ++stripe) {
      const char* const at = bytes + stripe * kStripeBytes;
      const std::uint64_t in_block = stripe % kStripesPerBlock;
      sum +=
          load_word(at + 8 * (l ^ 1)) + product(load_word(at + 8 * l), secret(8 * (in_block + l)));
      if (in_block + 1 == kStripesPerBlock) {
        sum = scramble(sum, secret(kSecretBytes - kStripeBytes + 8 * l));
      }
    }
    const char* const last = bytes + n - kStripeBytes;
    return sum + load_word(last + 8 * (l ^ 1)) +
           product(load_word(last + 8 * l), secret(kSecretBytes - kStripeBytes - 7 + 8 * l));
  });
  std::uint64_t sum = n * kPrime1;
  for (int pair = 0; pair < 4; ++pair) {
    const std::uint64_t a = group.from(2 * pair, [&](int lane) { return accumulators[lane]; });
    const std::uint64_t b = group.from(2 * pair + 1, [&](int lane) { return accumulators[lane]; });
    const auto at = static_cast<std::uint64_t>(11 + 16 * pair);
    sum += fold(a ^ secret(at), b ^ secret(at + 8));
  }
  return avalanche(sum, kFinalFactor);
}

/// Bytes in memory.
struct Plain {
  const char* at;
  BRECCIA_HD std::uint64_t word(std::uint64_t offset) const { return load_word(at + offset); }
};

/// The final hash of more than 16 bytes, by 8 lanes; every block of a table has more.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t hash_block(const Group& group, const char* bytes, std::uint64_t n) {
#if !defined(__CUDACC__)
  // One thread that plays all lanes has the library, which uses the CPU's wide registers.
  if constexpr (std::is_same_v<Group, exec::HostGroup<kLanes>>) return XXH3_64bits(bytes, n);
#endif
  if (n > 240) return hash_long(group, bytes, n);
  return group.from(0, [&](int) { return hash_middle(Plain{bytes}, n, kFinalFactor); });
}

/// A key's bytes in columns.
struct KeyBytes {
  const record::KeyColumnsRef& keys;
  std::uint64_t i;

  BRECCIA_HD std::uint64_t word(std::uint64_t offset) const {
    const std::uint64_t bits = offset % 8 * 8;
    const std::uint64_t high = record::padded_word(keys, i, offset / 8);
    if (bits == 0) return swap_word(high);
    return swap_word(high << bits | record::padded_word(keys, i, offset / 8 + 1) >> (64 - bits));
  }
};

/// The draft's hash of up to 16 bytes.
BRECCIA_HD inline std::uint64_t draft_short(std::uint64_t first, std::uint64_t last,
                                            std::uint64_t n) {
  if (n > 8) {
    const std::uint64_t low = first ^ secret(0);
    const std::uint64_t high = last ^ secret(8);
    return avalanche(n + low + high + fold(low, high), kDraftFactor);
  }
  if (n >= 4) {
    const std::uint64_t last_half = low_half(first >> (8 * (n - 4)));
    const std::uint64_t keyed = (low_half(first) | last_half << 32) ^ secret(0);
    const std::uint64_t mixed = n + (keyed ^ keyed >> 51) * kPrime32_1;
    return avalanche((mixed ^ mixed >> 47) * kPrime2, kDraftFactor);
  }
  if (n > 0) {
    const std::uint64_t packed = (first & 0xFF) | (first >> (8 * (n / 2)) & 0xFF) << 8 |
                                 (first >> (8 * (n - 1)) & 0xFF) << 16 | n << 24;
    return avalanche((packed ^ low_half(secret(0))) * kPrime1, kDraftFactor);
  }
  return fold(secret(0), kPrime2);
}

/// The draft's hash of more than 240 bytes; its accumulators take their own words.
BRECCIA_SINGLE_SOURCE
template <class Bytes>
BRECCIA_HD std::uint64_t draft_long(const Bytes& bytes, std::uint64_t n) {
  std::uint64_t sum[8];
  for (int lane = 0; lane < 8; ++lane) sum[lane] = first_accumulator(lane);
  const auto accumulate = [&](std::uint64_t at, std::uint64_t secret_at) {
    for (std::uint64_t l = 0; l < 8; ++l) {
      const std::uint64_t word = bytes.word(at + 8 * l);
      sum[l] += word + product(word, secret(secret_at + 8 * l));
    }
  };
  const std::uint64_t stripes = n / kStripeBytes;
  for (std::uint64_t stripe = 0; stripe < stripes; ++stripe) {
    const std::uint64_t in_block = stripe % kStripesPerBlock;
    accumulate(stripe * kStripeBytes, 8 * in_block);
    if (in_block + 1 < kStripesPerBlock) continue;
    for (std::uint64_t l = 0; l < 8; ++l) {
      sum[l] = scramble(sum[l], secret(kSecretBytes - kStripeBytes + 8 * l));
    }
  }
  if (n % kStripeBytes != 0) accumulate(n - kStripeBytes, kSecretBytes - kStripeBytes - 7);
  std::uint64_t all = n * kPrime1;
  for (std::uint64_t pair = 0; pair < 4; ++pair) {
    const std::uint64_t at = 11 + 16 * pair;
    all += fold(sum[2 * pair] ^ secret(at), sum[2 * pair + 1] ^ secret(at + 8));
  }
  return avalanche(all, kDraftFactor);
}

/// The draft's hash of key `i`: what RocksDB's Bloom filter makes its bits of.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline std::uint64_t hash_key(const record::KeyColumnsRef& keys, std::uint64_t i) {
  const std::uint64_t n = keys.bytes_at(i);
  const KeyBytes bytes{keys, i};
  if (n <= 8) return draft_short(bytes.word(0), 0, n);
  if (n <= 16) return draft_short(bytes.word(0), bytes.word(n - 8), n);
  if (n <= 240) return hash_middle(bytes, n, kDraftFactor);
  return draft_long(bytes, n);
}

}  // namespace breccia::sst::algo::xxh3
