#pragma once

#include <cstdint>

#include "exec/group.h"

/// Keys as columns of 8-byte words: the form in which a backend sorts, merges and searches them.
///
/// A key is cut into big-endian words, zero-padded at its end. Its first word lies in `head`; the
/// others lie in `tail`. Comparing words as numbers, then lengths, is comparing bytes as memcmp
/// does, then lengths: zero padding makes a key equal to a longer one only if that one goes on with
/// zero bytes, and then the shorter one comes first.

namespace breccia::exec {

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

/// A sorted run: keys ascending, and among versions of one key `payload` descending.
/// A payload is a log position with its operation in the low bits; 0 never occurs.
/// `fence[j]` is `head[j * kFenceStride]`. `value` as in EntriesRef.
struct RunRef {
  KeyColumnsRef keys;
  const std::uint64_t* payload = nullptr;
  const std::uint64_t* fence = nullptr;
  const std::uint64_t* value = nullptr;
};

/// Entries between two fences: a search ends in 64 neighbouring heads, 512 bytes.
inline constexpr std::uint64_t kFenceStride = 64;

constexpr BRECCIA_HD std::uint64_t fence_count(std::uint64_t count) {
  return (count + kFenceStride - 1) / kFenceStride;
}

/// Lookups: the newest version of keys[i] whose payload is below bound[i], or below `bound_all`
/// where `bound` is null.
struct QueriesRef {
  KeyColumnsRef keys;
  const std::uint64_t* bound = nullptr;
  std::uint64_t bound_all = ~std::uint64_t{0};

  BRECCIA_HD std::uint64_t bound_at(std::uint64_t i) const { return bound ? bound[i] : bound_all; }
};

/// Where a search puts what it finds.
/// Shape   payload[queries.keys.count]; value as well, or null: not wanted. With it, all runs have
///         values; that of a key which was not found is anything.
struct FoundRef {
  std::uint64_t* payload = nullptr;
  std::uint64_t* value = nullptr;
};

/// Range requests: of each, the first keys from begin[i] to below end[i] with a version below
/// bound[i], or below `bound_all` where `bound` is null, as many as fit its room.
/// Shape   begin.count == end.count; out_at[begin.count + 1], ascending from 0: range i's room.
struct RangesRef {
  KeyColumnsRef begin;
  KeyColumnsRef end;
  const std::uint64_t* out_at = nullptr;
  const std::uint64_t* bound = nullptr;
  std::uint64_t bound_all = ~std::uint64_t{0};

  BRECCIA_HD std::uint64_t bound_at(std::uint64_t i) const { return bound ? bound[i] : bound_all; }
};

/// Where a walk of ranges puts what it finds; n ranges with `room` entries in all.
/// Shape   emitted[n]: range i has emitted[i] entries from its place out_at[i] on; where that is
/// all
///         its room, there may be more. Either payload[room]: the newest version of each key,
///         deletions too; or pair[2 * room]: key and value, each 8 bytes as they lie in memory, of
///         the keys that are there. For pairs all runs have values and keys of 8 bytes, and hold no
///         merge operands.
struct WalkedRef {
  std::uint64_t* payload = nullptr;
  std::uint64_t* pair = nullptr;
  std::uint32_t* emitted = nullptr;
};

/// How a merge operand of 8 bytes changes a value of 8 bytes.
enum class NumberOp {
  kAdd,  // little-endian, wrapping
  kMax,  // in byte order
  kMin,
  kPut,  // the operand takes the value's place
};

/// Operations of a batch on values of 8 bytes, in arrival order.
/// Shape   operation[i]: its kind in the low bits, as in a payload; operand[i]: the value of a put,
///         or a merge operand; base[i]: what keys[i] has before the batch, if has_base[i].
struct UpdatesRef {
  KeyColumnsRef keys;
  const std::uint64_t* operation = nullptr;
  const std::uint64_t* operand = nullptr;
  const std::uint64_t* base = nullptr;
  const std::uint8_t* has_base = nullptr;
  NumberOp op = NumberOp::kAdd;
};

/// What a search reports for a key that no run holds below its bound.
inline constexpr std::uint64_t kNotFound = 0;

}  // namespace breccia::exec
