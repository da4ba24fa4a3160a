#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/executor.h"
#include "sst/filter.h"

namespace breccia::sst::algo {

/// Adds hashes to a Bloom filter: each sets bits of one line.
/// Shape   words[lines * 16]. `kIsAlone`: one lane adds all, else one lane a hash.
/// Source  RocksDB 7.8, FastLocalBloom.
template <bool kIsAlone>
struct AddHashes {
  const std::uint64_t* hash;
  std::uint64_t count;
  std::uint64_t lines;
  std::uint32_t probes;
  std::uint32_t* words;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void add(const Group& group, std::uint64_t hash_of_key) const {
    constexpr std::uint64_t kWordsPerLine = FilterShape::kLineBytes / sizeof(std::uint32_t);
    std::uint32_t* const line =
        words + kWordsPerLine * (((hash_of_key & 0xFFFFFFFF) * lines) >> 32);
    auto bits = static_cast<std::uint32_t>(hash_of_key >> 32);
    for (std::uint32_t probe = 0; probe < probes; ++probe) {
      const std::uint32_t bit = bits >> 23;
      if constexpr (kIsAlone) {
        line[bit / 32] |= std::uint32_t{1} << (bit % 32);
      } else {
        exec::or_acq_rel_device(group, line + bit / 32, std::uint32_t{1} << (bit % 32));
      }
      bits *= 0x9E3779B9;
    }
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    if constexpr (kIsAlone) {
      for (std::uint64_t k = 0; k < count; ++k) add(group, hash[k]);
    } else {
      exec::each_item(group, first, count, [&](std::uint64_t k) { add(group, hash[k]); });
    }
  }
};

/// Adds hashes to a filter in the executor's memory.
/// Errors  a device's.
template <class X>
Status add_hashes(X& x, const std::uint64_t* hash, std::uint64_t count, const FilterShape& shape,
                  std::uint32_t* words) {
  // On the host one thread needs no atomics, and other threads have other files to do.
  constexpr bool kIsAlone = X::kIsHost;
  return x.template launch<1>(kIsAlone ? 1 : count,
                              AddHashes<kIsAlone>{hash, count, shape.lines, shape.probes, words});
}

}  // namespace breccia::sst::algo
