#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"

/// A Bloom filter whose bits for a key all lie in one line of the cache: what a filter says of a
/// key costs one read of memory. Host and device ask it by the same code.

namespace breccia::runs {

inline constexpr std::uint64_t kFilterBitsPerKey = 10;  // when it is full
inline constexpr std::uint64_t kFilterBlockWords = 8;   // 64 bytes
inline constexpr int kFilterProbes = 6;

/// A filter in some memory, not owned: words[block_count * kFilterBlockWords], aligned to a block.
/// Shape   0 < block_count < 2^32.
struct FilterRef {
  std::uint64_t* words = nullptr;
  std::uint64_t block_count = 0;
};

/// The words that `hash` (record/keyed_hash.h) is about.
BRECCIA_HD inline std::uint64_t* filter_block(const FilterRef& filter, std::uint64_t hash) {
  return filter.words + ((hash >> 32) * filter.block_count >> 32) * kFilterBlockWords;
}

/// The bits of a block for one hash, one after the other.
/// Source  RocksDB's FastLocalBloom: the top bits of products with the golden ratio.
class FilterBits {
 public:
  BRECCIA_HD explicit FilterBits(std::uint64_t hash) : state_(static_cast<std::uint32_t>(hash)) {}
  /// A bit's place in the block.
  BRECCIA_HD std::uint32_t next() {
    state_ *= 0x9e37'79b9;
    return state_ >> (32 - 9);
  }

 private:
  std::uint32_t state_;
};
static_assert(kFilterBlockWords * 64 == 1 << 9);

/// False: the key was never added.
/// Threads any, beside additions; those that are to be seen happened before.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD bool may_hold(const Group& group, const FilterRef& filter, std::uint64_t hash) {
  const std::uint64_t* const block = filter_block(filter, hash);
  FilterBits bits(hash);
  for (int probe = 0; probe < kFilterProbes; ++probe) {
    const std::uint32_t bit = bits.next();
    const std::uint64_t word = exec::load_relaxed_device(group, block + bit / 64);
    if ((word >> bit % 64 & 1) == 0) return false;
  }
  return true;
}

/// Adds a key; false if all its bits were there.
/// Threads any number.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD bool add_to_filter(const Group& group, const FilterRef& filter, std::uint64_t hash) {
  std::uint64_t* const block = filter_block(filter, hash);
  FilterBits bits(hash);
  bool is_new = false;
  for (int probe = 0; probe < kFilterProbes; ++probe) {
    const std::uint32_t bit = bits.next();
    std::uint64_t* const word = block + bit / 64;
    const std::uint64_t mask = std::uint64_t{1} << bit % 64;
    // Most bits of keys that come again are there: a read leaves the line to those who look.
    if ((exec::load_relaxed_device(group, word) & mask) != 0) continue;
    (void)exec::or_acq_rel_device(group, word, mask);
    is_new = true;
  }
  return is_new;
}

}  // namespace breccia::runs
