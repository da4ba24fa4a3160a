#include "tree/level0_triggers.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace breccia::tree {

namespace {

constexpr int kTriggerMax = 1 << 30;  // no trigger grows beyond it, on either side of 0

struct Trigger {
  const char* name;
  int rocksdb::ColumnFamilyOptions::*value;
};
constexpr Trigger kTriggers[] = {
    {"level0_file_num_compaction_trigger",
     &rocksdb::ColumnFamilyOptions::level0_file_num_compaction_trigger},
    {"level0_slowdown_writes_trigger",
     &rocksdb::ColumnFamilyOptions::level0_slowdown_writes_trigger},
    {"level0_stop_writes_trigger", &rocksdb::ColumnFamilyOptions::level0_stop_writes_trigger},
};

int scaled(std::int64_t trigger, int flush_parts) {
  return static_cast<int>(
      std::clamp<std::int64_t>(trigger * flush_parts, -kTriggerMax, kTriggerMax));
}

}  // namespace

rocksdb::ColumnFamilyOptions scaled_triggers(rocksdb::ColumnFamilyOptions options,
                                             int flush_parts) {
  for (const Trigger& trigger : kTriggers) {
    options.*trigger.value = scaled(options.*trigger.value, flush_parts);
  }
  return options;
}

Result<std::unordered_map<std::string, std::string>> scaled_triggers(
    std::unordered_map<std::string, std::string> options, int flush_parts) {
  for (const Trigger& trigger : kTriggers) {
    const auto option = options.find(trigger.name);
    if (option == options.end()) continue;
    std::string& value = option->second;
    std::int64_t given = 0;
    const char* const end = value.data() + value.size();
    const auto [parsed, error] = std::from_chars(value.data(), end, given);
    if (error != std::errc() || parsed != end || given < -kTriggerMax || given > kTriggerMax) {
      return Status::InvalidArgument("Error parsing " + option->first + ": " + value);
    }
    value = std::to_string(scaled(given, flush_parts));
  }
  return options;
}

rocksdb::ColumnFamilyOptions given_triggers(rocksdb::ColumnFamilyOptions options, int flush_parts) {
  for (const Trigger& trigger : kTriggers) {
    int& value = options.*trigger.value;
    if (value != kTriggerMax) value /= flush_parts;
  }
  return options;
}

int flush_parts_of(const rocksdb::ColumnFamilyOptions& hidden) {
  const int usual = rocksdb::ColumnFamilyOptions().level0_file_num_compaction_trigger;
  return std::max(hidden.level0_file_num_compaction_trigger / usual, 1);
}

}  // namespace breccia::tree
