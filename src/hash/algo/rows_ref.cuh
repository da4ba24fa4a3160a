#pragma once

#include <cstdint>

#include "exec/atomics.h"

namespace breccia::hash::algo {

/// What a row has, in words of 8 bytes: a key, if keys are not in the slots, zeros behind it up to
/// a word, then a value, and in rows with keys zeros up to a pair of words, so that lanes read
/// such a row by pairs.
struct RowShape {
  std::uint32_t key_bytes = 0;  // 0: the key is in the slot
  std::uint32_t key_words = 0;
  std::uint32_t value_words = 0;
  std::uint32_t words = 0;

  static RowShape of(std::uint64_t key_bytes, std::uint64_t value_bytes) {
    RowShape shape;
    shape.key_bytes = static_cast<std::uint32_t>(key_bytes);
    shape.key_words = (shape.key_bytes + 7) / 8;
    shape.value_words = static_cast<std::uint32_t>(value_bytes / 8);
    shape.words = shape.key_words + shape.value_words;
    if (key_bytes != 0) shape.words += shape.words % 2;
    return shape;
  }

  [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{8} * words; }
  /// Pairs of words, for rows with keys: of a row, and of its key, which may share its last one
  /// with the value.
  [[nodiscard]] BRECCIA_HD std::uint32_t pairs() const { return words / 2; }
  [[nodiscard]] BRECCIA_HD std::uint32_t key_pairs() const { return (key_words + 1) / 2; }
};

/// Rows of a table, and the numbers of those that are free, as a ring.
struct RowsRef {
  char* bytes = nullptr;
  RowShape shape;
  std::uint32_t* ring = nullptr;
  std::uint64_t count = 0;  // of rows, and of places in the ring

  /// Of rows with keys.
  [[nodiscard]] BRECCIA_HD exec::WordPair* pairs_of(std::uint64_t row) const {
    return reinterpret_cast<exec::WordPair*>(bytes) + row * shape.pairs();
  }
};

}  // namespace breccia::hash::algo
