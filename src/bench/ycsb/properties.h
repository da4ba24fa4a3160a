#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

/// YCSB's property files and what its core workload reads from them.
namespace breccia::bench {

using Properties = std::map<std::string, std::string>;

/// Adds the properties in `text` to *properties: lines `name=value` or `name: value`, comments
/// behind # or ! at a line's beginning.
/// Errors  InvalidArgument: a line that is neither; the message names its number.
Status parse_properties(std::string_view text, Properties* properties);

enum class Distribution { kUniform, kZipfian, kLatest };

/// Of a scan.
inline constexpr std::uint32_t kScanLengthMax = 65'535;

struct YcsbWorkload {
  std::uint64_t record_count = 0;
  std::uint64_t operation_count = 0;
  double seconds = 0;  // if positive: time decides, and operations begin anew behind the last one
  double read = 0.95;
  double update = 0.05;
  double insert = 0;
  double read_modify_write = 0;
  double scan = 0;
  Distribution distribution = Distribution::kUniform;
  std::uint32_t scan_length_max = 1000;
  bool zipfian_scan_lengths = false;  // or uniform
  std::uint64_t field_count = 10;
  std::uint64_t field_length = 100;
  bool hashed_keys = true;
  std::uint32_t zero_padding = 1;

  [[nodiscard]] std::uint64_t value_size() const { return field_count * field_length; }
  [[nodiscard]] double all() const { return read + update + insert + read_modify_write + scan; }
  [[nodiscard]] double writes() const { return update + insert + read_modify_write; }
};

/// The workload that `properties` describe. Properties of YCSB that say nothing here are ignored.
/// Errors  InvalidArgument: a number is none, a proportion is negative, recordcount is missing;
///         NotSupported: a distribution that is not known here.
Result<YcsbWorkload> ycsb_workload(const Properties& properties);

}  // namespace breccia::bench
