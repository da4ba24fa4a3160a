#pragma once

#include <cstdint>

#include "record/columns.h"
#include "sst/algo/bytes.cuh"

/// Entries of tables as columns: what is decoded, merged and encoded. Keys and tags move; values
/// stay where they were read until they are written.

namespace breccia::sst::algo {

/// Entries in an executor's memory, not owned.
/// Shape   tag[n], value[n], value_bytes[n] for n = keys.count; keys are whole (skip == 0).
///         tag: sequence number << 8 | type. value: where the executor reads the value.
struct EntriesRef {
  record::KeyColumnsRef keys;
  const std::uint64_t* tag = nullptr;
  const char* const* value = nullptr;
  const std::uint32_t* value_bytes = nullptr;
};

/// Word `w`, big endian, of the key's bytes with `tag` behind them; zeros beyond.
BRECCIA_HD inline std::uint64_t internal_word(const record::KeyColumnsRef& keys, std::uint64_t i,
                                              std::uint64_t tag, std::uint64_t w) {
  const std::uint64_t bytes = keys.bytes_at(i);
  const std::uint64_t begin = 8 * w;
  if (begin + 8 <= bytes) return record::padded_word(keys, i, w);
  const std::uint64_t last = swap_word(tag);
  if (begin > bytes) return begin - bytes < 8 ? last << 8 * (begin - bytes) : 0;
  if (begin == bytes) return last;
  return record::padded_word(keys, i, w) | last >> 8 * (bytes - begin);
}

/// How many leading bytes of two internal keys are the same.
BRECCIA_HD inline std::uint32_t shared_bytes(const record::KeyColumnsRef& keys, std::uint64_t i,
                                             std::uint64_t i_tag, std::uint64_t j,
                                             std::uint64_t j_tag) {
  const std::uint64_t i_bytes = keys.bytes_at(i) + sizeof i_tag;
  const std::uint64_t j_bytes = keys.bytes_at(j) + sizeof j_tag;
  const std::uint64_t most = i_bytes < j_bytes ? i_bytes : j_bytes;
  for (std::uint64_t w = 0; 8 * w < most; ++w) {
    const std::uint64_t difference =
        internal_word(keys, i, i_tag, w) ^ internal_word(keys, j, j_tag, w);
    if (difference == 0) continue;
    std::uint64_t same = 8 * w;
    for (int shift = 56; (difference >> shift & 0xFF) == 0; shift -= 8) ++same;
    return static_cast<std::uint32_t>(same < most ? same : most);
  }
  return static_cast<std::uint32_t>(most);
}

}  // namespace breccia::sst::algo
