#pragma once

#include <rocksdb/advanced_options.h>
#include <rocksdb/table.h>

#include <cstdint>
#include <optional>
#include <string>

#include "sst/table_shape.h"

/// How RocksDB's options say that a family's tables are to be written, and whether they are of the
/// kind that is written here.

namespace breccia::sst {

/// What of a family's tables is as it is written here.
struct TableFacts {
  bool is_known = true;  // somebody told
  bool is_block_based = true;
  bool has_plain_index = true;   // one block, binary search
  bool has_plain_filter = true;  // Bloom as of version 5, whole, a fixed number of bits a key; none
  bool has_plain_version = true;   // format_version 2 to 5
  bool has_plain_checksum = true;  // CRC32c, XXH3
  bool has_plain_blocks = true;    // cut by size, not aligned, searched by halves
  bool has_short_keys = true;      // keys share what they have in common with those before
  bool is_written_blindly = true;  // neither blocks nor filters are checked as they are made

  [[nodiscard]] bool are_plain() const {
    return is_known && is_block_based && has_plain_index && has_plain_filter && has_plain_version &&
           has_plain_checksum && has_plain_blocks && has_short_keys && is_written_blindly;
  }
};

/// How a family's tables are written.
struct TableChoice {
  TableFacts facts;
  TableShape shape;           // but for its compression
  std::string filter_policy;  // its name; empty: no filter
};

/// Shape   null: a factory that is not known.
[[nodiscard]] TableChoice choice_of(const rocksdb::TableFactory* factory);

/// Bits of a Bloom filter for a key, times 1000, by what its policy calls itself.
/// Shape   false: another filter.
[[nodiscard]] bool bloom_millibits(const std::string& id, std::uint32_t* millibits);

/// None: it is not written here.
[[nodiscard]] std::optional<Compression> compression_of(rocksdb::CompressionType type);

}  // namespace breccia::sst
