#pragma once

#include <breccia/status.h>

#include <cstdint>

#include "base/bytes.h"
#include "base/parallel.h"
#include "record/keyed_hash.h"
#include "record/operations.h"
#include "record/record.h"
#include "wal/log_options.h"

namespace breccia::hash {

/// The 64-bit numbers by which the index knows keys: a key of 8 bytes is its own, others have a
/// hash that nobody can foresee. Two keys may have one (shared_numbers.h).
/// Threads any.
class Numbering {
 public:
  /// `mask`: bits of a number that count, for tests.
  Numbering(const record::HashSeed& seed, std::uint64_t mask) : seed_(seed), mask_(mask) {}

  [[nodiscard]] std::uint64_t of(const record::KeyColumnsRef& keys, std::uint64_t i) const {
    const bool is_word = keys.bytes_at(i) == sizeof(std::uint64_t);
    return (is_word ? record::first_word(keys, i) : record::keyed_hash(keys, i, seed_)) & mask_;
  }
  [[nodiscard]] std::uint64_t of(const Slice& key) const {
    const bool is_word = key.size() == sizeof(std::uint64_t);
    return (is_word ? base::load_big_endian_8(key.data())
                    : record::keyed_hash(key.data(), key.size(), seed_)) &
           mask_;
  }
  /// number[keys.count] of all keys, by many cores if there are many.
  void of_all(const record::KeyColumnsRef& keys, std::uint64_t* number) const {
    constexpr std::uint64_t kPerTask = 16 << 10;
    const auto make = [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t i = begin; i < end; ++i) number[i] = of(keys, i);
    };
    if (keys.count < 2 * kPerTask) return make(0, keys.count);
    base::parallel_for(tbb::blocked_range<std::uint64_t>(0, keys.count, kPerTask),
                       [&](const auto& range) { make(range.begin(), range.end()); });
  }
  /// Whether keys of 8 bytes have numbers that no other such key has.
  [[nodiscard]] bool tells_words_apart() const { return mask_ == ~std::uint64_t{0}; }

 private:
  const record::HashSeed seed_;
  const std::uint64_t mask_;
};

/// What an index has of a record of a frame.
[[nodiscard]] inline std::uint64_t payload_of(const wal::RecoveredFrame& frame,
                                              const record::Operation& one) {
  return (frame.records_position + one.offset) | static_cast<std::uint64_t>(one.op);
}

/// The key of a record in the log.
[[nodiscard]] inline Slice key_of(const std::byte* record) {
  return {record::record_key(record), record::record_header(record).key_bytes()};
}

}  // namespace breccia::hash
