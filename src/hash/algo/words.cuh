#pragma once

#include <cstdint>

#include "exec/group.h"
#include "hash/refs.h"

/// Keys as words, and where words may lie.

namespace breccia::hash::algo {

/// The upper half of a product: `word` scaled to [0, count).
BRECCIA_HD inline std::uint64_t scaled(std::uint64_t word, std::uint64_t count) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(word, count);
#else
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(word) * count >> 64);
#endif
}

inline constexpr std::uint64_t kMixFactor = 0xff51'afd7'ed55'8ccd;

/// A permutation of the 64-bit numbers: each step can be undone. What keys differ in may be their
/// first bits alone, which a factor leaves where they are: these are folded upon the others first.
/// Source  the finalizer of MurmurHash3 (Appleby 2011). Deviation: one factor and an addend are
///         secret.
BRECCIA_HD inline std::uint64_t permuted(std::uint64_t key, std::uint64_t add,
                                         std::uint64_t factor) {
  std::uint64_t word = key + add;
  word = (word ^ word >> 33) * factor;
  word = (word ^ word >> 33) * kMixFactor;
  return word ^ word >> 33;
}

/// The way back from permuted numbers of one secret.
class Unpermute {
 public:
  Unpermute(std::uint64_t add, std::uint64_t factor)
      : add_(add), mix_inverse_(inverse(kMixFactor)), inverse_(inverse(factor)) {}

  BRECCIA_HD std::uint64_t operator()(std::uint64_t word) const {
    std::uint64_t key = (word ^ word >> 33) * mix_inverse_;
    key = (key ^ key >> 33) * inverse_;
    return (key ^ key >> 33) - add_;
  }

 private:
  /// Of an odd number. Newton's iteration: it is its own inverse in the last three bits, and each
  /// step doubles the bits that are right.
  static std::uint64_t inverse(std::uint64_t odd) {
    std::uint64_t result = odd;
    for (int i = 0; i < 5; ++i) result *= 2 - odd * result;
    return result;
  }

  std::uint64_t add_;
  std::uint64_t mix_inverse_;
  std::uint64_t inverse_;
};

/// Where a key may lie, and as what.
struct Place {
  std::uint64_t word = 0;
  std::uint64_t first = 0;   // bucket
  std::uint64_t second = 0;  // bucket, another one; `first` in the bucket of taken words
};

/// The second bucket of a word whose first is `first`. Needs two buckets at least.
BRECCIA_HD inline std::uint64_t second_bucket(const TableRef& table, std::uint64_t word,
                                              std::uint64_t first) {
  const std::uint64_t other = permuted(word, table.secret.add, table.secret.second_factor);
  // One of the others, so that two choices are two.
  const std::uint64_t bucket = scaled(other, table.bucket_count - 1);
  return bucket < first ? bucket : bucket + 1;
}

/// Where a pair with this word may lie, for one that is not in the bucket of taken words.
BRECCIA_HD inline Place place_of_word(const TableRef& table, std::uint64_t word) {
  const std::uint64_t first = scaled(word, table.bucket_count);
  return {.word = word, .first = first, .second = second_bucket(table, word, first)};
}

BRECCIA_HD inline Place place_of(const TableRef& table, std::uint64_t key) {
  const std::uint64_t word = permuted(key, table.secret.add, table.secret.factor);
  if (word >= kFirstWord && word != exec::kBusyWord) return place_of_word(table, word);
  // Five keys in 2^64; in a bucket of their own each has a word that is free there.
  const std::uint64_t own = word == exec::kBusyWord ? 2 * kFirstWord : word + kFirstWord;
  return {.word = own, .first = table.bucket_count, .second = table.bucket_count};
}

/// The hash of a key with one word more.
BRECCIA_HD inline std::uint64_t folded(std::uint64_t hash, std::uint64_t word,
                                       const Secret& secret) {
  return permuted(hash ^ word, secret.add, secret.factor);
}

/// The word of keys with this hash. Several keys may have one, so those whose words are taken need
/// no bucket of their own.
BRECCIA_HD inline std::uint64_t word_of_hash(std::uint64_t hash) {
  const bool is_taken = hash < kFirstWord || hash == exec::kBusyWord;
  return is_taken ? hash ^ 2 * kFirstWord : hash;
}

/// The key of a pair that lies in `bucket`; `back` of the table's secret.
BRECCIA_HD inline std::uint64_t key_of(const TableRef& table, const Unpermute& back,
                                       std::uint64_t bucket, std::uint64_t word) {
  if (bucket != table.bucket_count) return back(word);
  return back(word == 2 * kFirstWord ? exec::kBusyWord : word - kFirstWord);
}

}  // namespace breccia::hash::algo
