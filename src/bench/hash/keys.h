#pragma once

#include <cstdint>
#include <cstring>

#include "base/random.h"

namespace breccia::bench::tables {

/// Keys and values of a run as functions of their numbers.
/// Threads any.
class Keys {
 public:
  Keys(std::uint64_t seed, std::uint32_t key_bytes, std::uint32_t value_bytes)
      : seed_(seed), key_bytes_(key_bytes), value_bytes_(value_bytes) {}

  [[nodiscard]] std::uint32_t key_bytes() const { return key_bytes_; }
  [[nodiscard]] std::uint32_t value_bytes() const { return value_bytes_; }
  /// Of a value.
  [[nodiscard]] std::uint64_t words() const { return value_bytes_ / sizeof(std::uint64_t); }

  /// Key i in its size: a number that is another one for each seed, and others behind it; 4 bytes
  /// for shorter ones, as keys are different.
  /// Shape   i < 2^32, key_bytes at `to`.
  void put_key(std::uint64_t i, char* to) const {
    std::uint64_t words[kKeyWordsMax] = {number(i)};
    if (key_bytes_ < sizeof(std::uint64_t)) {
      words[0] = static_cast<std::uint32_t>(i * kShortKeyFactor + seed_);
    }
    for (std::size_t w = 1; w < kKeyWordsMax; ++w) words[w] = base::mix64(words[w - 1]);
    std::memcpy(to, words, key_bytes_);
  }

  /// The first word of the value that key i has in its version; versions differ.
  [[nodiscard]] std::uint64_t first_word(std::uint64_t i, std::uint32_t version) const {
    return number(i) * 3 + version;
  }
  /// Word `w` of a value; they differ in a row.
  [[nodiscard]] static std::uint64_t word(std::uint64_t first, std::uint64_t w) {
    return first * (2 * w + 1);
  }

 private:
  static constexpr std::size_t kKeyWordsMax = 8;
  static constexpr std::uint64_t kShortKeyFactor = 0x9e37'79b1;  // odd: no number comes twice

  [[nodiscard]] std::uint64_t number(std::uint64_t i) const {
    return base::mix64(i + base::mix64(seed_));
  }

  const std::uint64_t seed_;
  const std::uint32_t key_bytes_;
  const std::uint32_t value_bytes_;
};

}  // namespace breccia::bench::tables
