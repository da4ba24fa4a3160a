#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "exec/group.h"
#include "record/columns.h"

/// A hash of a key that nobody can foresee who does not know its seed, so that nobody can make up
/// keys that meet in it. Built from the 8-byte words that columns have (record/columns.h): host and
/// device make the same one, and so do a key's bytes.

namespace breccia::record {

/// Two random words.
struct HashSeed {
  std::uint64_t start = 0;
  std::uint64_t factor = 1;  // odd

  friend bool operator==(const HashSeed&, const HashSeed&) = default;
};

/// The halves of a 128-bit product, one upon the other.
BRECCIA_HD inline std::uint64_t folded_product(std::uint64_t left, std::uint64_t right) {
#if defined(__CUDA_ARCH__)
  return left * right ^ __umul64hi(left, right);
#else
  const unsigned __int128 product = static_cast<unsigned __int128>(left) * right;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
#endif
}

/// The hash, word by word.
/// Cost    a multiplication a word, and one.
/// Source  wyhash (Wang 2019). Deviation: one word a step, and both factors are secret.
class KeyedHash {
 public:
  BRECCIA_HD KeyedHash(const HashSeed& seed, std::uint64_t key_bytes)
      : seed_(seed), state_(seed.start + key_bytes) {}

  BRECCIA_HD void add(std::uint64_t word) { state_ = folded_product(state_ ^ word, seed_.factor); }
  [[nodiscard]] BRECCIA_HD std::uint64_t value() const {
    return folded_product(state_ ^ ~seed_.factor, seed_.start | 1);
  }

 private:
  const HashSeed seed_;
  std::uint64_t state_;
};

/// The hash of keys[i].
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline std::uint64_t keyed_hash(const KeyColumnsRef& keys, std::uint64_t i,
                                           const HashSeed& seed) {
  const std::uint64_t bytes = keys.bytes_at(i);
  const std::uint64_t words = tail_words(bytes);
  KeyedHash hash(seed, bytes);
  hash.add(first_word(keys, i));
  if (words == 0) return hash.value();
  const std::uint64_t* const tail = keys.tail + keys.tail_at(i);
  for (std::uint64_t word = 0; word < words; ++word) hash.add(tail[word]);
  return hash.value();
}

/// The hash of a key's bytes.
inline std::uint64_t keyed_hash(const char* key, std::uint64_t bytes, const HashSeed& seed) {
  KeyedHash hash(seed, bytes);
  if (bytes < 8) {
    hash.add(base::load_big_endian(key, bytes));
    return hash.value();
  }
  std::uint64_t at = 0;
  for (; at + 8 <= bytes; at += 8) hash.add(base::load_big_endian_8(key + at));
  // The key's last 8 bytes, without those that other words have.
  if (at < bytes) hash.add(base::load_big_endian_8(key + bytes - 8) << 8 * (at + 8 - bytes));
  return hash.value();
}

}  // namespace breccia::record
