#pragma once

#include <cstdint>

#include "exec/group.h"

/// Keys as columns of 8-byte words: the form in which a backend sorts, merges and searches them.
///
/// A key is cut into big-endian words, zero-padded at its end. Its first word lies in `head`; the
/// others lie in `tail`. Comparing words as numbers, then lengths, is comparing bytes as memcmp
/// does, then lengths: zero padding makes a key equal to a longer one only if that one goes on with
/// zero bytes, and then the shorter one comes first.
///
/// Where all keys share their leading bytes, as those of a run often do, heads need not repeat
/// them: `head` is then the 8 bytes behind them, which tell keys apart, and tails are as ever.

namespace breccia::record {

/// `uniform_bytes` of columns whose keys differ in length.
inline constexpr std::uint32_t kVariableBytes = ~std::uint32_t{0};
/// Bits of a `meta` word that hold the key's length; the rest is its place in `tail`.
inline constexpr int kMetaLengthBits = 17;

/// Words that a key of `bytes` bytes has in `tail`.
BRECCIA_HD constexpr std::uint64_t tail_words(std::uint64_t bytes) {
  return bytes <= 8 ? 0 : (bytes - 1) / 8;
}

/// The 8 bytes of `word` in the other order: between a column's words and bytes in memory.
BRECCIA_HD inline std::uint64_t swap_bytes(std::uint64_t word) {
  std::uint64_t swapped = 0;
  for (int byte = 0; byte < 8; ++byte) swapped = swapped << 8 | (word >> (8 * byte) & 0xff);
  return swapped;
}

/// Keys in some memory, not owned.
/// Shape   head[count]; if uniform: tail[count * tail_words(uniform_bytes)], meta unused;
///         else meta[count], meta[i] = place of key i's tail << kMetaLengthBits | its length.
///         skip > 0: all keys share that many leading bytes, none has fewer words than they fill,
///         and head[i] is the word that begins behind them.
struct KeyColumnsRef {
  const std::uint64_t* head = nullptr;
  const std::uint64_t* meta = nullptr;
  const std::uint64_t* tail = nullptr;
  std::uint64_t count = 0;
  std::uint64_t tail_count = 0;
  std::uint32_t uniform_bytes = 0;
  std::uint32_t skip = 0;
  std::uint64_t prefix = 0;  // of what is skipped the first word, zeros behind; 0 without

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
    if (first + count < keys.count) part.tail_count = keys.tail_at(first + count);
  }
  return part;
}

/// The first word of key `i`.
BRECCIA_HD inline std::uint64_t first_word(const KeyColumnsRef& keys, std::uint64_t i) {
  if (keys.skip == 0) return keys.head[i];
  return keys.skip >= 8 ? keys.prefix : keys.prefix | keys.head[i] >> 8 * keys.skip;
}

/// Word `w` of key `i`; zero where the key has none.
BRECCIA_HD inline std::uint64_t padded_word(const KeyColumnsRef& keys, std::uint64_t i,
                                            std::uint64_t w) {
  if (w == 0) return first_word(keys, i);
  return w <= tail_words(keys.bytes_at(i)) ? keys.tail[keys.tail_at(i) + w - 1] : 0;
}

/// The 8 bytes of key `i` that begin `skipped` bytes behind its start, as a word.
BRECCIA_HD inline std::uint64_t word_behind(const KeyColumnsRef& keys, std::uint64_t i,
                                            std::uint64_t skipped) {
  if (skipped == keys.skip) return keys.head[i];
  const std::uint64_t word = padded_word(keys, i, skipped / 8);
  const std::uint64_t bits = 8 * (skipped % 8);
  return bits == 0 ? word : word << bits | padded_word(keys, i, skipped / 8 + 1) >> (64 - bits);
}

/// Compares the keys a[i] and b[j] whose first words are equal.
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

/// Compares the keys keys[i] and keys[j].
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline int compare_keys(const KeyColumnsRef& keys, std::uint64_t i, std::uint64_t j) {
  if (keys.head[i] != keys.head[j]) return keys.head[i] < keys.head[j] ? -1 : 1;
  return compare_tails(keys, i, keys, j);
}

/// True if heads of both lie behind the same bytes, so that they compare as keys do.
BRECCIA_HD inline bool has_same_heads(const KeyColumnsRef& a, const KeyColumnsRef& b) {
  return a.skip == b.skip && a.prefix == b.prefix && (a.skip <= 8 || a.tail == b.tail);
}

/// Compares the keys a[i] and b[j].
BRECCIA_SINGLE_SOURCE
BRECCIA_HD inline int compare_keys(const KeyColumnsRef& a, std::uint64_t i, const KeyColumnsRef& b,
                                   std::uint64_t j) {
  const bool same = has_same_heads(a, b);
  const std::uint64_t left = same ? a.head[i] : first_word(a, i);
  const std::uint64_t right = same ? b.head[j] : first_word(b, j);
  if (left != right) return left < right ? -1 : 1;
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
