#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

/// Keys of benchmarks as functions of their numbers.
namespace breccia::bench {

/// What keys look like:
///
///   seq       the number as db_bench writes it: eight big-endian bytes, then the digit zero
///   uniform   the same of a mix of the number, so neighbours lie anywhere
///   ycsb      `user` and YCSB's hash of the number in decimal, whatever the key size: about 23 B
///   prefixed  one of 256 prefixes that take all but eight bytes, then a mix of the number: the
///             first eight bytes of a key tell little
///   urls      addresses on 16,384 hosts, whatever the key size: about 55 B, 25 to 100
enum class KeyShape { kSequence, kUniform, kYcsb, kPrefixed, kUrls };

/// The shape that `--key_set` calls `name`.
/// Shape   `name` is one of those above.
KeyShape key_shape(std::string_view name);

/// A bijection on the numbers below 2^bits, in which near numbers go far apart.
/// Shape   1 <= bits <= 64, word < 2^bits.
constexpr std::uint64_t mix_bits(std::uint64_t word, int bits) {
  const std::uint64_t mask = ~0ULL >> (64 - bits);
  const int shift = (bits + 1) / 2;
  word = (word + 0x9e3779b97f4a7c15ULL) & mask;
  word = ((word ^ (word >> shift)) * 0xbf58476d1ce4e5b9ULL) & mask;
  word = ((word ^ (word >> shift)) * 0x94d049bb133111ebULL) & mask;
  return word ^ (word >> shift);
}

/// `count` distinct keys, and as many others that are not among them.
/// Threads any number.
class KeySet {
 public:
  KeySet(KeyShape shape, std::size_t key_size, std::uint64_t count);

  /// Errors  InvalidArgument: the keys that are asked for do not fit.
  [[nodiscard]] Status check(bool with_absent) const;

  /// Writes key `number`; returns its size.
  /// Shape   number < count(); room for size_max() bytes at `to`.
  std::size_t write(std::uint64_t number, char* to) const;
  /// Writes a key that is none of the set, and among them where its size allows that.
  std::size_t write_absent(std::uint64_t number, char* to) const;

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::size_t size_max() const;
  /// Bytes of a key in the mean, rounded.
  [[nodiscard]] std::size_t size_mean() const;

 private:
  std::size_t write_any(std::uint64_t number, char* to) const;

  KeyShape shape_;
  std::size_t key_size_;
  std::uint64_t count_;
};

}  // namespace breccia::bench
