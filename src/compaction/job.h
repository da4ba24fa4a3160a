#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compaction/merge_job.h"
#include "compaction/strings.h"

/// A compaction as RocksDB 7.8 hands it out, and its outcome as RocksDB takes it back.

namespace breccia::compaction {

/// What RocksDB says of a job, or of a part of one.
struct ServiceJob {
  std::string family;
  Fields family_options;  // as RocksDB prints them
  Fields database_options;
  std::vector<std::uint64_t> snapshots;  // ascending
  std::vector<std::string> inputs;       // names of files, of all levels
  int output_level = 0;
  std::string database_id;
  std::optional<std::string> begin;  // user keys; a part's range
  std::optional<std::string> end;
};

/// Errors  Corruption, NotSupported: not what RocksDB 7.8 writes.
Result<ServiceJob> read_job(std::string_view text);

/// By which RocksDB knows a table again, where its properties say these. `session_id` has 20 digits
/// of base 36. Zeros, which mean that nothing is known, where an identity is missing.
[[nodiscard]] std::array<std::uint64_t, 2> unique_id(const std::string& database_id,
                                                     std::string_view session_id,
                                                     std::uint64_t file_number);

/// What an outcome says beside the merge's own.
struct OutcomeFacts {
  std::string folder;  // of the files
  int output_level = 0;
  std::string database_id;
  std::string session_id;
  std::uint64_t input_files = 0;
  std::uint64_t input_files_at_output_level = 0;
  std::uint64_t elapsed_micros = 0;
  std::uint64_t cpu_micros = 0;
  bool is_manual = false;
};

/// The text for RocksDB.
[[nodiscard]] std::string write_outcome(const Merged& merged, const OutcomeFacts& facts);

}  // namespace breccia::compaction
