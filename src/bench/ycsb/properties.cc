#include "bench/ycsb/properties.h"

#include <fmt/format.h>

#include <charconv>

namespace breccia::bench {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

template <class Number>
Status read_number(const Properties& properties, const std::string& name, Number* number) {
  const auto found = properties.find(name);
  if (found == properties.end()) return Status();
  const std::string& text = found->second;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  if (error == std::errc() && stop == end && *number >= 0) return Status();
  return Status::InvalidArgument(fmt::format("{}={} is not a number from 0 up", name, text));
}

Status read_numbers(const Properties& properties, YcsbWorkload* workload) {
  BRECCIA_TRY(read_number(properties, "recordcount", &workload->record_count));
  BRECCIA_TRY(read_number(properties, "operationcount", &workload->operation_count));
  BRECCIA_TRY(read_number(properties, "maxexecutiontime", &workload->seconds));
  BRECCIA_TRY(read_number(properties, "readproportion", &workload->read));
  BRECCIA_TRY(read_number(properties, "updateproportion", &workload->update));
  BRECCIA_TRY(read_number(properties, "insertproportion", &workload->insert));
  BRECCIA_TRY(read_number(properties, "readmodifywriteproportion", &workload->read_modify_write));
  BRECCIA_TRY(read_number(properties, "scanproportion", &workload->scan));
  BRECCIA_TRY(read_number(properties, "maxscanlength", &workload->scan_length_max));
  BRECCIA_TRY(read_number(properties, "fieldcount", &workload->field_count));
  BRECCIA_TRY(read_number(properties, "fieldlength", &workload->field_length));
  return read_number(properties, "zeropadding", &workload->zero_padding);
}

Status check(const YcsbWorkload& workload) {
  constexpr std::uint64_t kValueBytesMax = 1ULL << 30;
  constexpr std::uint64_t kRecordsMax = 1ULL << 38;
  constexpr std::uint32_t kPaddingMax = 256;
  if (workload.record_count == 0 || workload.record_count > kRecordsMax) {
    return Status::InvalidArgument("recordcount must be from 1 to 2^38: -p recordcount=100000");
  }
  if (workload.field_count > kValueBytesMax || workload.field_length > kValueBytesMax ||
      workload.value_size() > kValueBytesMax || workload.zero_padding > kPaddingMax) {
    return Status::InvalidArgument("fieldcount, fieldlength or zeropadding is too large");
  }
  if (workload.scan_length_max == 0 || workload.scan_length_max > kScanLengthMax) {
    return Status::InvalidArgument(
        fmt::format("maxscanlength must be from 1 to {}", kScanLengthMax));
  }
  if (workload.all() <= 0) {
    return Status::InvalidArgument("all proportions are zero");
  }
  if (workload.seconds > 0 && workload.insert > 0) {
    return Status::InvalidArgument("with maxexecutiontime a record would be inserted again",
                                   "use operationcount alone");
  }
  return Status();
}

}  // namespace

Status parse_properties(std::string_view text, Properties* properties) {
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    const std::size_t feed = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, feed));
    text = feed == std::string_view::npos ? std::string_view() : text.substr(feed + 1);
    if (line.empty() || line[0] == '#' || line[0] == '!') continue;
    const std::size_t equals = line.find_first_of("=:");
    if (equals == std::string_view::npos || equals == 0) {
      return Status::InvalidArgument(fmt::format("line {} is not name=value", number));
    }
    (*properties)[std::string(trimmed(line.substr(0, equals)))] =
        std::string(trimmed(line.substr(equals + 1)));
  }
  return Status();
}

Result<YcsbWorkload> ycsb_workload(const Properties& properties) {
  YcsbWorkload workload;
  BRECCIA_TRY(read_numbers(properties, &workload));
  BRECCIA_TRY(check(workload));
  const auto text = [&](const std::string& name, const std::string& otherwise) {
    const auto found = properties.find(name);
    return found == properties.end() ? otherwise : found->second;
  };
  const std::string distribution = text("requestdistribution", "uniform");
  if (distribution == "zipfian") {
    workload.distribution = Distribution::kZipfian;
  } else if (distribution == "latest") {
    workload.distribution = Distribution::kLatest;
  } else if (distribution != "uniform") {
    return Status::NotSupported(
        fmt::format("requestdistribution={}: there are uniform, zipfian and latest", distribution));
  }
  const std::string lengths = text("scanlengthdistribution", "uniform");
  if (lengths != "uniform" && lengths != "zipfian") {
    return Status::NotSupported(
        fmt::format("scanlengthdistribution={}: there are uniform and zipfian", lengths));
  }
  workload.zipfian_scan_lengths = lengths == "zipfian";
  const std::string order = text("insertorder", "hashed");
  if (order != "hashed" && order != "ordered") {
    return Status::InvalidArgument(
        fmt::format("insertorder={}: there are hashed and ordered", order));
  }
  workload.hashed_keys = order == "hashed";
  return workload;
}

}  // namespace breccia::bench
