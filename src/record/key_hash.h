#pragma once

#include <cstdint>

#include "exec/group.h"
#include "record/columns.h"

namespace breccia::record {

/// A hash of a key, built from the 8-byte words that its columns have (record/columns.h), so that
/// host and device make the same one. Keys of different lengths with equal words differ in it.
class KeyHash {
 public:
  BRECCIA_HD KeyHash(std::uint32_t seed, std::uint64_t key_bytes)
      : state_((std::uint64_t{seed} << 32 ^ key_bytes) * kOdd) {}

  BRECCIA_HD void add(std::uint64_t word) {
    state_ = (state_ ^ word) * kOdd;
    state_ ^= state_ >> 32;
  }
  [[nodiscard]] BRECCIA_HD std::uint64_t value() const {
    const std::uint64_t mixed = state_ * kOdd;
    return mixed ^ mixed >> 29;
  }

 private:
  static constexpr std::uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;  // 2^64 over the golden ratio
  std::uint64_t state_;
};

/// The hash of keys[i].
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline std::uint64_t hash_key(const KeyColumnsRef& keys, std::uint64_t i,
                                         std::uint32_t seed) {
  const std::uint64_t bytes = keys.bytes_at(i);
  const std::uint64_t* const tail = keys.tail + keys.tail_at(i);
  KeyHash hash(seed, bytes);
  hash.add(first_word(keys, i));
  for (std::uint64_t word = 0; word < tail_words(bytes); ++word) hash.add(tail[word]);
  return hash.value();
}

}  // namespace breccia::record
