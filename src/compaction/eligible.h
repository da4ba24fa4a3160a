#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sst/table_choice.h"

/// Which compactions are left to RocksDB before anything is read of their files. What can be seen
/// only in entries (single deletions, wide columns, dictionaries) merge() says.

namespace breccia::compaction {

/// One of the files that are read.
struct InputFacts {
  bool is_live = true;         // its level and sequence numbers are known
  bool has_properties = true;  // what follows is known
  std::uint64_t merge_operands = 0;
  std::uint64_t range_deletions = 0;
  bool has_blobs = false;
  bool has_plain_compression = true;  // none, Snappy, LZ4, ZSTD
  bool has_plain_index = true;
  bool has_collectors = false;
  bool has_temperature = false;
  bool has_one_sequence = true;  // of ingested files
};

/// What decides.
struct Facts {
  bool is_known_release = true;    // of RocksDB
  bool has_context = true;         // an event came before the job
  bool is_well_formed = true;      // the job's text
  bool is_what_event_said = true;  // its inputs are those of the event
  bool has_plain_style = true;     // level or universal
  bool has_plain_comparator = true;
  bool has_filter = false;  // a compaction filter, or what makes them
  bool has_partitioner = false;
  bool has_prefix_extractor = false;
  bool has_blobs = false;
  bool has_paranoid_checks = false;
  bool has_tiers = false;  // times or temperatures are kept
  bool has_plain_compression = true;
  bool has_dictionary = false;
  bool has_compression_level = false;
  bool has_file_checksums = false;
  bool has_several_paths = false;
  bool has_plain_env = true;
  bool has_rate_limiter = false;
  bool has_file_limits = false;  // an SstFileManager that counts
  bool has_handoff = false;      // of checksums, to the file system
  bool has_collectors = false;
  bool has_two_phase_commit = false;  // and nobody said that only what is committed is written
  bool has_ingest_behind = false;
  sst::TableFacts table = {};
  std::vector<InputFacts> inputs = {};
};

/// Why the job is left to RocksDB: one of reasons(); null: it is not.
[[nodiscard]] const char* why_not(const Facts& facts);

/// All that why_not() may say.
[[nodiscard]] std::span<const char* const> reasons();

}  // namespace breccia::compaction
