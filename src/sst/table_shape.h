#pragma once

#include <cstdint>
#include <string>

#include "sst/format.h"

namespace breccia::sst {

/// Which keys of an index are made shorter: as RocksDB's BlockBasedTableOptions has it.
enum class IndexShortening : std::uint8_t { kNone, kSeparators, kSeparatorsAndSuccessor };

/// How a table is written: what stands in RocksDB's BlockBasedTableOptions and beside them.
struct TableShape {
  std::uint32_t version = 5;
  ChecksumType checksum = ChecksumType::kXxh3;
  Compression compression = Compression::kNone;
  std::uint64_t block_bytes = 4096;
  std::uint32_t block_deviation = 10;  // percent that may be left of a block
  std::uint32_t restarts = 16;         // entries from one restart to the next
  std::uint32_t index_restarts = 1;
  IndexShortening index_shortening = IndexShortening::kSeparators;
  bool has_compressed_index = true;        // as data blocks are
  std::uint32_t filter_millibits = 10000;  // bits a key of the Bloom filter, times 1000; 0: none
  bool has_whole_keys = true;              // the filter is of whole keys
};

/// What a table's properties say of where it comes from; texts as RocksDB writes them.
struct TableOrigin {
  std::string comparator = "leveldb.BytewiseComparator";
  std::string merge_operator = "nullptr";
  std::string prefix_extractor = "nullptr";
  std::string collectors = "[]";
  std::string filter_policy;  // of the filter, if there is one: "bloomfilter" with RocksDB 7.8
  std::string family = "default";
  std::uint64_t family_id = 0;
  std::string database_id;
  std::string session_id;
  std::string host_id;
  std::uint64_t file_number = 0;  // with the session's identity it names the file: never used twice
  std::uint64_t creation_time = 0;       // seconds; of the oldest entry, as far as is known
  std::uint64_t oldest_key_time = 0;     // likewise
  std::uint64_t file_creation_time = 0;  // seconds
  std::string compression_options;
  bool is_external = false;  // to be ingested: sequence numbers are 0, until it is
};

}  // namespace breccia::sst
