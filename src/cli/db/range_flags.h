#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/db/db_flags.h"
#include "console/exit_codes.h"

namespace breccia::cli::db {

/// Keys from *from() to below *to(); null: no bound.
struct Range {
  std::optional<std::string> begin;
  std::optional<std::string> end;

  [[nodiscard]] const std::string* from() const { return begin ? &*begin : nullptr; }
  [[nodiscard]] const std::string* to() const { return end ? &*end : nullptr; }
};

/// ldb's flags for a range of keys.
struct RangeFlags {
  std::optional<std::string> from_flag;
  std::optional<std::string> to_flag;
  std::int64_t max_keys = -1;  // below 0: no limit

  void add_to(console::App* app) {
    app->add_option("--from", from_flag, "First key");
    app->add_option("--to", to_flag, "Key before which to stop");
    app->add_option("--max_keys", max_keys, "Stop after so many keys");
  }
  /// False, with words on stderr, if a key is not hexadecimal and should be.
  [[nodiscard]] bool decode(const console::HexFlags& hex, Range* range) const {
    if (from_flag) range->begin = hex.key(*from_flag);
    if (to_flag) range->end = hex.key(*to_flag);
    return from_flag.has_value() == range->begin.has_value() &&
           to_flag.has_value() == range->end.has_value();
  }
};

/// A range of a family's keys, in a store that was opened to be looked at.
struct OpenRange {
  std::unique_ptr<ordered::ReadOnlyStore> store;
  rocksdb::ColumnFamilyHandle* family = nullptr;
  Range range;

  /// Returns an ExitCode, with words on stderr if it is not kExitOk.
  [[nodiscard]] int open(const DbFlags& flags, const RangeFlags& range_flags) {
    if (!range_flags.decode(flags.hex, &range)) return console::kExitUsage;
    store = open_to_look(flags);
    if (store == nullptr) return console::kExitFailed;
    family = find_family(*store, flags.column_family);
    return family == nullptr ? console::kExitUsage : console::kExitOk;
  }
  /// As visit_entries.
  Status visit(const std::function<bool(const Slice& key, const Slice& value)>& visit) const {
    return visit_entries(*store, family, range.from(), range.to(), visit);
  }
};

}  // namespace breccia::cli::db
