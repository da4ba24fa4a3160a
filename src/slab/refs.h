#pragma once

#include <cstdint>

#include "exec/group.h"
#include "hash/refs.h"

/// What a table of chained slabs is made of: plain data that may lie on a device. What is asked of
/// it is what is asked of a hash table.

namespace breccia::slab {

using hash::Code;
using hash::Operation;
using hash::RequestsRef;

inline constexpr int kSlabWords = 32;
/// Keys of a slab; the last word beside them is no key.
inline constexpr int kSlabKeys = kSlabWords - 1;

/// 512 bytes: keys side by side, and their values behind them.
/// Shape   key[kSlabKeys] is the tail: which slab of the chain is next in its lower half, 0: none;
///         in the upper half of a head's the bucket's version, odd while somebody changes it.
/// Source  [kvcg] section 5. Deviation: the lock is a version, and lies beside the keys
///         (docs/impl/slab.md).
struct alignas(256) Slab {
  std::uint64_t key[kSlabWords];
  std::uint64_t value[kSlabWords];
};

/// No key: a place that is free. A key that is the same number has a bucket of its own, in which
/// it is another one.
inline constexpr std::uint64_t kFree = 0;

inline constexpr int kSegmentsMax = 40;

/// Slabs by number, in segments each of which but the first is as large as all before it, so that
/// slabs stay where they are when there are more. Part of a kernel's arguments, which lie in a
/// cache of their own.
/// Shape   the first segment has 2^first_bits slabs.
struct SlabsRef {
  Slab* segment[kSegmentsMax] = {};
  int first_bits = 0;

  [[nodiscard]] BRECCIA_HD Slab* at(std::uint64_t number) const {
    const std::uint64_t firsts = number >> first_bits;
    if (firsts == 0) return segment[0] + number;
    const int last_bit = 63 - leading_zeros(firsts);
    return segment[last_bit + 1] + (number - (std::uint64_t{1} << (first_bits + last_bit)));
  }

 private:
  BRECCIA_HD static int leading_zeros(std::uint64_t word) {
#if defined(__CUDA_ARCH__)
    return __clzll(static_cast<long long>(word));
#else
    return __builtin_clzll(word);
#endif
  }
};

/// By which keys are spread over buckets.
struct Secret {
  std::uint64_t add = 0;
  std::uint64_t factor = 1;  // odd
};

/// How many keys there are, in parts: who adds adds to one that others seldom add to.
/// Shape   each part a sector of its own.
inline constexpr int kTallies = 64;
inline constexpr int kTallyWords = 4;

/// What is known of a head of the host's memory: which slab of the reserve it lies in, and how
/// often it was asked for of late. One word, as both are looked at together.
class HeadNote {
 public:
  BRECCIA_HD explicit HeadNote(std::uint64_t word) : word_(word) {}
  BRECCIA_HD static HeadNote of(std::uint64_t place, std::uint64_t heat) {
    return HeadNote((place + 1) << kHeatBits | heat);
  }

  [[nodiscard]] BRECCIA_HD std::uint64_t word() const { return word_; }
  [[nodiscard]] BRECCIA_HD bool is_up() const { return word_ >> kHeatBits != 0; }
  [[nodiscard]] BRECCIA_HD std::uint64_t place() const { return (word_ >> kHeatBits) - 1; }
  /// Requests that were counted. Adding one to the word adds one to it.
  [[nodiscard]] BRECCIA_HD std::uint64_t heat() const { return word_ & kHeatMask; }
  [[nodiscard]] BRECCIA_HD HeadNote with_place(std::uint64_t place) const {
    return of(place, heat());
  }
  [[nodiscard]] BRECCIA_HD HeadNote without_place() const { return HeadNote(heat()); }
  [[nodiscard]] BRECCIA_HD HeadNote cooler() const {
    return HeadNote((word_ & ~kHeatMask) | heat() / 2);
  }

  /// One request of so many is counted, until there are kHeatMax: others would get into the place.
  static constexpr std::uint64_t kHeatShare = 8;
  static constexpr std::uint64_t kHeatMax = std::uint64_t{1} << 31;

 private:
  static constexpr int kHeatBits = 32;
  static constexpr std::uint64_t kHeatMask = (std::uint64_t{1} << kHeatBits) - 1;
  std::uint64_t word_;
};

/// Heads that belong into the host's memory, of which some lie in a reserve of the backend's.
/// Shape   note[count]: of heads [first, first + count). Each slab of the reserve is one of these.
///         A head that lies there is nowhere else: its own slab is stale. salt: another number for
///         each batch.
struct ReserveRef {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t* note = nullptr;
  Slab* slab = nullptr;
  std::uint64_t salt = 0;
};

/// A table.
/// Shape   heads: bucket_count + 1 slabs, the first one of the key that is kFree. bucket_mask: as
///         many bits as the highest bucket's number has. Bucket b holds keys whose hash ends like
///         it, in so many bits, or in one less, where there is no such bucket yet.
///         free[free_count]: numbers of slabs of `chained` that have nothing in them, of which the
///         first *taken are in chains; *taken may be more than there are.
///         tally[kTallies * kTallyWords].
/// Source  linear hashing (Litwin 1980).
struct TableRef {
  SlabsRef heads;
  ReserveRef reserve;
  SlabsRef chained;
  std::uint64_t bucket_count = 0;
  std::uint64_t bucket_mask = 0;
  Secret secret;
  const std::uint32_t* free = nullptr;
  std::uint64_t free_count = 0;
  std::uint64_t* taken = nullptr;
  std::uint64_t* tally = nullptr;
};

}  // namespace breccia::slab
