#pragma once

#include <cstdint>
#include <utility>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/algo/rows_ref.cuh"
#include "hash/algo/words.cuh"
#include "hash/refs.h"

/// What keys of requests are, and how a group tells that a slot has one. Each kind, `Keys`, offers
///
///   kInSlots                            whether a slot says all of its key
///   Moved                               the kind as which a growing table moves its keys
///   are_same(requests, i, j)            whether two requests have one key; called by one lane.
///                                       Not of MovedKeys, which never meet
///   of(group, secret, requests, i)      the key of request i, a `Key`:
///     kSharesWords                      whether several keys may have one word
///     place(table)                      where it may lie
///     is_in(pair, word, slot)           whether a pair in a bucket's slot has it, or may have it
///     lies_in(group, row)               if they do: whether a row has it; and what follows there
///
/// so that what stands in slots.cuh and run.cuh is one source, and costs keys of 8 bytes nothing.

namespace breccia::hash::algo {

BRECCIA_HD inline std::uint64_t value_of(const RequestsRef& requests, std::uint64_t i) {
  return requests.value == nullptr ? 0 : requests.value[i];
}

/// Keys of 8 bytes: a word stands for one.
struct WordKeys {
  static constexpr bool kInSlots = true;
  using Moved = WordKeys;

  struct Key {
    static constexpr bool kSharesWords = false;
    std::uint64_t key;

    BRECCIA_HD Place place(const TableRef& table) const { return place_of(table, key); }
    BRECCIA_HD bool is_in(const Pair& pair, std::uint64_t word, int /*slot*/) const {
      return pair.first == word;
    }
  };

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD Key of(const Group& /*group*/, const Secret& /*secret*/, const RequestsRef& requests,
                    std::uint64_t i) const {
    return {requests.key[i]};
  }
  BRECCIA_HD static bool are_same(const RequestsRef& requests, std::uint64_t i, std::uint64_t j) {
    return requests.key[i] == requests.key[j];
  }
};

/// Keys in rows that a growing table moves: a row has one key, so its number tells keys of one hash
/// apart, and none is looked at.
/// Shape   RequestsRef: key, the words; value, the rows.
struct MovedKeys {
  static constexpr bool kInSlots = false;
  using Moved = MovedKeys;

  struct Key {
    static constexpr bool kSharesWords = false;
    Pair moved;

    BRECCIA_HD Place place(const TableRef& table) const {
      return place_of_word(table, moved.first);
    }
    BRECCIA_HD bool is_in(const Pair& pair, std::uint64_t /*word*/, int /*slot*/) const {
      return pair == moved;
    }
  };

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD Key of(const Group& /*group*/, const Secret& /*secret*/, const RequestsRef& requests,
                    std::uint64_t i) const {
    return {Pair{requests.key[i], requests.value[i]}};
  }
};

/// Pairs of words that the longest key has.
inline constexpr int kKeyPairsMax = 4;

template <class Group>
class RowKey;

/// Keys of another size: a slot has a hash of the key for a word, and for its value the number of
/// the row in which the key lies, as RowShape has it.
struct RowKeys {
  static constexpr bool kInSlots = false;
  using Moved = MovedKeys;

  RowsRef rows;
  const char* column = nullptr;  // ValueRequestsRef::key
  /// The widest loads with which all keys of the column can be read: 16, 8, 4 or 1 bytes.
  std::uint32_t load_bytes = 1;
  /// Pairs of a row that are read to see whether it has a key: those with its key, or all of it,
  /// so that its value is there at the same time.
  std::uint32_t pairs_read = 0;
  std::uint64_t hash_mask = 0;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD RowKey<Group> of(const Group& group, const Secret& secret,
                              const RequestsRef& /*requests*/, std::uint64_t i) const {
    return RowKey<Group>(group, *this, secret, i);
  }
  BRECCIA_HD bool are_same(const RequestsRef& /*requests*/, std::uint64_t i,
                           std::uint64_t j) const {
    for (std::uint32_t p = 0; 16 * p < rows.shape.key_bytes; ++p) {
      if (!(pair_of(i, p) == pair_of(j, p))) return false;
    }
    return true;
  }

  /// Pair p of request i's key as a row has it: zeros behind its end.
  BRECCIA_HD Pair pair_of(std::uint64_t i, std::uint32_t p) const {
    const std::uint32_t begin = 16 * p;
    const std::uint32_t bytes = rows.shape.key_bytes;
    if (begin >= bytes) return {};
    const char* const at = column + i * bytes + begin;
    if (load_bytes == 16) return *reinterpret_cast<const Pair*>(at);
    const std::uint32_t left = bytes - begin;
    return {word_at(at, left), left > 8 ? word_at(at + 8, left - 8) : 0};
  }

 private:
  /// The next word of a key of which `left` bytes are left, one at least.
  BRECCIA_HD std::uint64_t word_at(const char* at, std::uint32_t left) const {
    if (load_bytes == 8) return *reinterpret_cast<const std::uint64_t*>(at);
    std::uint64_t word = 0;
    if (load_bytes == 4) {
      const auto* const half = reinterpret_cast<const std::uint32_t*>(at);
      word = half[0];
      return left > 4 ? word | std::uint64_t{half[1]} << 32 : word;
    }
    for (std::uint32_t b = 0; b < 8 && b < left; ++b) {
      word |= std::uint64_t{static_cast<unsigned char>(at[b])} << 8 * b;
    }
    return word;
  }
};

/// One key in a column, and what its group read last of a row.
///
/// Lane l has the pairs l, l + W, ... of the key: one, where a group has four lanes or more. A row
/// is read and compared in the same shares, so it comes with one load a lane.
template <class Group>
class RowKey {
 public:
  static constexpr bool kSharesWords = true;

  /// Reads the key.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD RowKey(const Group& group, const RowKeys& keys, const Secret& secret, std::uint64_t i)
      : keys_(keys),
        own_(group.per_lane([&](int lane) {
          Share share;
          for (int k = 0; k < kShare; ++k) share.pair[k] = keys.pair_of(i, number(k, lane));
          return share;
        })),
        read_(own_),
        word_(word_of_hash(hash(group, secret) & keys.hash_mask)) {}

  BRECCIA_HD Place place(const TableRef& table) const { return place_of_word(table, word_); }

  BRECCIA_HD bool is_in(const Pair& pair, std::uint64_t word, int slot) const {
    return pair.first == word && (others_ >> slot & 1U) == 0;
  }
  /// The key of a slot of the bucket that is looked at is another one.
  BRECCIA_HD void pass_over(int slot) { others_ |= 1U << slot; }
  BRECCIA_HD void forget_others() { others_ = 0; }

  /// Reads a row, and says whether the key lies there.
  /// Cost    RowKeys::pairs_read loads of a device's L2 cache, all at once; a vote.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool lies_in(const Group& group, std::uint32_t row) {
    const Pair* const pairs = keys_.rows.pairs_of(row);
    read_ = group.per_lane([&](int lane) {
      Share share;
      for (int k = 0; k < kShare; ++k) {
        const std::uint32_t p = number(k, lane);
        if (p < keys_.pairs_read) share.pair[k] = exec::load_named_pair_device(group, pairs + p);
      }
      return share;
    });
    row_ = row;
    return group.ballot([&](int lane) { return differs(own_[lane], read_[lane], lane); }) == 0;
  }

  /// Copies the value of the row that has the key; for RowKeys that read all of it.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void copy_value(const Group& group, std::uint64_t* to) const {
    const Pair* const pairs = keys_.rows.pairs_of(row_);
    group.each_lane([&](int lane) {
      for (int k = 0; k < kShare; ++k) put(number(k, lane), read_[lane].pair[k], to);
      for (std::uint32_t p = number(kShare, lane); p < keys_.rows.shape.pairs();
           p += Group::kWidth) {
        put(p, exec::load_named_pair_device(group, pairs + p), to);
      }
    });
  }

 private:
  static constexpr int kShare = (kKeyPairsMax + Group::kWidth - 1) / Group::kWidth;
  struct Share {
    Pair pair[kShare];
  };

  BRECCIA_HD static std::uint32_t number(int k, int lane) {
    return static_cast<std::uint32_t>(k * Group::kWidth + lane);
  }

  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD std::uint64_t hash(const Group& group, const Secret& secret) const {
    std::uint64_t hash = 0;
    for (int p = 0; p < kKeyPairsMax; ++p) {
      const auto words = static_cast<std::uint32_t>(2 * p);
      if (words >= keys_.rows.shape.key_words) break;
      const int lane_of_pair = p % Group::kWidth;
      const auto pair_in = [&](int lane) { return own_[lane].pair[p / Group::kWidth]; };
      hash = folded(hash, group.from(lane_of_pair, [&](int lane) { return pair_in(lane).first; }),
                    secret);
      if (words + 1 == keys_.rows.shape.key_words) break;
      hash = folded(hash, group.from(lane_of_pair, [&](int lane) { return pair_in(lane).second; }),
                    secret);
    }
    return hash;
  }

  BRECCIA_HD bool differs(const Share& own, const Share& read, int lane) const {
    std::uint64_t difference = 0;
    for (int k = 0; k < kShare; ++k) {
      const std::uint32_t word = 2 * number(k, lane);
      const std::uint32_t words = keys_.rows.shape.key_words;
      if (word < words) difference |= own.pair[k].first ^ read.pair[k].first;
      // Beside the last word of an odd number the value begins.
      if (word + 1 < words) difference |= own.pair[k].second ^ read.pair[k].second;
    }
    return difference != 0;
  }

  /// Those of a row's pair p that are words of its value go where that is wanted.
  BRECCIA_HD void put(std::uint32_t p, const Pair& pair, std::uint64_t* to) const {
    const std::uint32_t begin = keys_.rows.shape.key_words;
    const std::uint32_t end = begin + keys_.rows.shape.value_words;
    const std::uint32_t word = 2 * p;
    if (word >= begin && word < end) to[word - begin] = pair.first;
    if (word + 1 >= begin && word + 1 < end) to[word + 1 - begin] = pair.second;
  }

  const RowKeys& keys_;
  decltype(std::declval<const Group&>().per_lane([](int) { return Share(); })) own_, read_;
  std::uint64_t word_;
  std::uint32_t row_ = 0;
  std::uint32_t others_ = 0;  // slots, a bit each
};

}  // namespace breccia::hash::algo
