#pragma once

#include <cstdint>

#include "exec/group.h"

/// Keys as columns of 8-byte words: the form in which a backend sorts, merges and searches them.
///
/// A key is cut into big-endian words, zero-padded at its end. Its first word lies in `head`; the
/// others lie in `tail`. Comparing words as numbers, then lengths, is comparing bytes as memcmp
/// does, then lengths: zero padding makes a key equal to a longer one only if that one goes on with
/// zero bytes, and then the shorter one comes first.

namespace breccia::record {

/// `uniform_bytes` of columns whose keys differ in length.
inline constexpr std::uint32_t kVariableBytes = ~std::uint32_t{0};
/// Bits of a `meta` word that hold the key's length; the rest is its place in `tail`.
inline constexpr int kMetaLengthBits = 17;

/// Words that a key of `bytes` bytes has in `tail`.
BRECCIA_HD constexpr std::uint64_t tail_words(std::uint64_t bytes) {
  return bytes <= 8 ? 0 : (bytes - 1) / 8;
}

/// Keys in some memory, not owned.
/// Shape   head[count]; if uniform: tail[count * tail_words(uniform_bytes)], meta unused;
///         else meta[count], meta[i] = place of key i's tail << kMetaLengthBits | its length.
struct KeyColumnsRef {
  const std::uint64_t* head = nullptr;
  const std::uint64_t* meta = nullptr;
  const std::uint64_t* tail = nullptr;
  std::uint64_t count = 0;
  std::uint64_t tail_count = 0;
  std::uint32_t uniform_bytes = 0;

  BRECCIA_HD bool uniform() const { return uniform_bytes != kVariableBytes; }
  BRECCIA_HD std::uint64_t bytes_at(std::uint64_t i) const {
    return uniform() ? uniform_bytes : meta[i] & ((std::uint64_t{1} << kMetaLengthBits) - 1);
  }
  BRECCIA_HD std::uint64_t tail_at(std::uint64_t i) const {
    return uniform() ? i * tail_words(uniform_bytes) : meta[i] >> kMetaLengthBits;
  }
};

/// Keys [first, first + count) of `keys`.
inline KeyColumnsRef slice(const KeyColumnsRef& keys, std::uint64_t first, std::uint64_t count) {
  KeyColumnsRef part = keys;
  part.head += first;
  part.count = count;
  if (keys.uniform()) {
    part.tail += keys.tail_at(first);
    part.tail_count = keys.tail_at(count);
  } else {
    part.meta += first;
  }
  return part;
}

/// Compares the keys a[i] and b[j] whose heads are equal.
/// Returns -1, 0 or 1.
/// Bound   one step per word of the shorter key, and of the longer one's rest.
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline int compare_tails(const KeyColumnsRef& a, std::uint64_t i, const KeyColumnsRef& b,
                                    std::uint64_t j) {
  const std::uint64_t a_bytes = a.bytes_at(i);
  const std::uint64_t b_bytes = b.bytes_at(j);
  const std::uint64_t a_words = tail_words(a_bytes);
  const std::uint64_t b_words = tail_words(b_bytes);
  const std::uint64_t* a_tail = a.tail + a.tail_at(i);
  const std::uint64_t* b_tail = b.tail + b.tail_at(j);
  const std::uint64_t words = a_words > b_words ? a_words : b_words;
  for (std::uint64_t word = 0; word < words; ++word) {
    const std::uint64_t left = word < a_words ? a_tail[word] : 0;
    const std::uint64_t right = word < b_words ? b_tail[word] : 0;
    if (left != right) return left < right ? -1 : 1;
  }
  return a_bytes == b_bytes ? 0 : a_bytes < b_bytes ? -1 : 1;
}

/// Compares the keys a[i] and b[j].
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline int compare_keys(const KeyColumnsRef& a, std::uint64_t i, const KeyColumnsRef& b,
                                   std::uint64_t j) {
  if (a.head[i] != b.head[j]) return a.head[i] < b.head[j] ? -1 : 1;
  return compare_tails(a, i, b, j);
}

/// Entries that become a run, in arrival order.
/// Shape   relative[keys.count], ascending: entry i has payload base + relative[i]. `value`: the 8
///         bytes of each entry's value, as they lie in memory (of deletions anything); null if one
///         has another length. `sorted`: the entries come in run order already.
struct EntriesRef {
  KeyColumnsRef keys;
  const std::uint64_t* relative = nullptr;
  std::uint64_t base = 0;
  const std::uint64_t* value = nullptr;
  bool sorted = false;
};

}  // namespace breccia::record
