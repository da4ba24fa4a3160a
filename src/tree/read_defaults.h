#pragma once

#include <breccia/options.h>

#include <cstdint>

namespace breccia::tree {

/// Bits a key of the Bloom filters that a Store's files get where nothing else was chosen.
inline constexpr int kBloomBitsPerKey = 10;

/// Bytes of the entry cache where nobody chooses, as for a Rocks.
inline constexpr std::uint64_t kEntryCacheBytes = 64 << 20;

/// Bytes of the block cache that a Store gets where nothing else was chosen: an eighth of the
/// memory that the process may use, and no less than RocksDB's own default.
[[nodiscard]] std::uint64_t default_block_cache_bytes();

/// Bytes of the entry cache that a Store gets where nothing else was chosen.
[[nodiscard]] std::uint64_t default_entry_cache_bytes();

/// Chooses the size of the entry cache and, for every family of `options`, what its table
/// options leave at RocksDB's defaults: one block cache for all of them, and Bloom filters.
/// Shape   a family's block cache is one that RocksDB made if it has the size of those and nobody
///         else holds it. Families of other tables than block-based ones, and those without a block
///         cache, keep what they have.
void fill_read_defaults(Options* options);

}  // namespace breccia::tree
