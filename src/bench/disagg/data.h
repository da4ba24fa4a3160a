#pragma once

#include <breccia/status.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "base/random.h"

namespace breccia::bench::disagg {

/// Keys and values as functions of their numbers.
class Data {
 public:
  /// A value has its key, its version and a sum of both.
  static constexpr std::uint32_t kValueMin = 32;

  Data(std::uint64_t keys, std::uint32_t value_bytes, std::uint64_t seed)
      : keys_(keys), value_bytes_(value_bytes), seed_(seed) {}

  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  [[nodiscard]] std::uint32_t value_bytes() const { return value_bytes_; }
  /// Of i >= keys(): one that is not there at first.
  [[nodiscard]] std::string key(std::uint64_t i) const {
    return fmt::format("{:016x}", base::mix64(seed_ + i));
  }

  ///     0   key      16
  ///     16  version  8
  ///     24  filling      of the version
  ///     -8  sum      8   of key, version and size
  [[nodiscard]] std::string value(const Slice& key, std::uint64_t version) const {
    std::string value(value_bytes_, static_cast<char>('a' + version % 26));
    std::copy_n(key.data(), kKeyBytes, value.begin());
    put_word(&value, kKeyBytes, version);
    put_word(&value, value.size() - sizeof(std::uint64_t), sum_of(key, version));
    return value;
  }
  /// The version that a value is of; none: it is no value of the key.
  [[nodiscard]] std::optional<std::uint64_t> version_in(const Slice& key,
                                                        const Slice& value) const {
    if (value.size() != value_bytes_ || !value.starts_with(key)) return std::nullopt;
    const std::uint64_t version = word_in(value, kKeyBytes);
    const std::uint64_t sum = word_in(value, value.size() - sizeof(std::uint64_t));
    return sum == sum_of(key, version) ? std::optional(version) : std::nullopt;
  }
  [[nodiscard]] bool is_value(const Slice& key, const Slice& value) const {
    return version_in(key, value).has_value();
  }

 private:
  static constexpr std::size_t kKeyBytes = 16;

  static void put_word(std::string* to, std::size_t at, std::uint64_t word) {
    std::memcpy(to->data() + at, &word, sizeof word);
  }
  static std::uint64_t word_in(const Slice& bytes, std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
  }
  [[nodiscard]] std::uint64_t sum_of(const Slice& key, std::uint64_t version) const {
    return base::mix64(word_in(key, 0) ^ base::mix64(word_in(key, 8) + version) ^ value_bytes_);
  }

  const std::uint64_t keys_;
  const std::uint32_t value_bytes_;
  const std::uint64_t seed_;
};

}  // namespace breccia::bench::disagg
