#pragma once

#include <cstdint>

#include "exec/group.h"

/// Numbers that are spread over all 64 bits.

namespace breccia::exec {

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

}  // namespace breccia::exec
