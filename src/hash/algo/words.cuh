#pragma once

#include <cstdint>

#include "exec/permute.h"
#include "hash/refs.h"

/// Keys as words, and where words may lie.

namespace breccia::hash::algo {

/// Where a key may lie, and as what.
struct Place {
  std::uint64_t word = 0;
  std::uint64_t first = 0;   // bucket
  std::uint64_t second = 0;  // bucket, another one; `first` in the bucket of taken words
};

/// The second bucket of a word whose first is `first`. Needs two buckets at least.
BRECCIA_HD inline std::uint64_t second_bucket(const TableRef& table, std::uint64_t word,
                                              std::uint64_t first) {
  const std::uint64_t other = exec::permuted(word, table.secret.add, table.secret.second_factor);
  // One of the others, so that two choices are two.
  const std::uint64_t bucket = exec::scaled(other, table.bucket_count - 1);
  return bucket < first ? bucket : bucket + 1;
}

/// Where a pair with this word may lie, for one that is not in the bucket of taken words.
BRECCIA_HD inline Place place_of_word(const TableRef& table, std::uint64_t word) {
  const std::uint64_t first = exec::scaled(word, table.bucket_count);
  return {.word = word, .first = first, .second = second_bucket(table, word, first)};
}

BRECCIA_HD inline Place place_of(const TableRef& table, std::uint64_t key) {
  const std::uint64_t word = exec::permuted(key, table.secret.add, table.secret.factor);
  if (word >= kFirstWord && word != exec::kBusyWord) return place_of_word(table, word);
  // Five keys in 2^64; in a bucket of their own each has a word that is free there.
  const std::uint64_t own = word == exec::kBusyWord ? 2 * kFirstWord : word + kFirstWord;
  return {.word = own, .first = table.bucket_count, .second = table.bucket_count};
}

/// The hash of a key with one word more.
BRECCIA_HD inline std::uint64_t folded(std::uint64_t hash, std::uint64_t word,
                                       const Secret& secret) {
  return exec::permuted(hash ^ word, secret.add, secret.factor);
}

/// The word of keys with this hash. Several keys may have one, so those whose words are taken need
/// no bucket of their own.
BRECCIA_HD inline std::uint64_t word_of_hash(std::uint64_t hash) {
  const bool is_taken = hash < kFirstWord || hash == exec::kBusyWord;
  return is_taken ? hash ^ 2 * kFirstWord : hash;
}

/// The key of a pair that lies in `bucket`; `back` of the table's secret.
BRECCIA_HD inline std::uint64_t key_of(const TableRef& table, const exec::Unpermute& back,
                                       std::uint64_t bucket, std::uint64_t word) {
  if (bucket != table.bucket_count) return back(word);
  return back(word == 2 * kFirstWord ? exec::kBusyWord : word - kFirstWord);
}

}  // namespace breccia::hash::algo
