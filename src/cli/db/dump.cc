#include <fmt/format.h>
#include <rocksdb/statistics.h>

#include <chrono>
#include <cstdio>

#include "cli/db/commands.h"
#include "cli/db/estimate.h"
#include "cli/db/range_flags.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::cli::db {

namespace {

struct DumpFlags {
  DbFlags db;
  RangeFlags range;
  bool count_only = false;
  bool stats = false;
  console::Option* count_delim_option = nullptr;
  std::string count_delim;
};

/// Counts and bytes of neighbouring keys that are the same before a character.
class Groups {
 public:
  explicit Groups(char delimiter) : delimiter_(delimiter) {}

  void add(const Slice& key, const Slice& value) {
    std::string group = key.ToString();
    group.resize(std::min({group.size(), group.find(delimiter_), group.find('\0')}));
    if (!group_.empty() && group != group_) {
      print();
      count_ = bytes_ = 0;
    }
    ++count_;
    bytes_ += key.size() + value.size();
    group_ = std::move(group);
  }
  void print() const { fmt::print("{} => count:{}\tsize:{}\n", group_, count_, bytes_); }

 private:
  const char delimiter_;
  std::string group_;
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

/// One dump on its way.
class Dump {
 public:
  Dump(const DumpFlags& flags, const OpenRange& range)
      : flags_(flags),
        by_group_(flags.count_delim_option->count() > 0),
        groups_(by_group_ && !flags.count_delim.empty() ? flags.count_delim[0] : '.'),
        // The distribution is printed by RocksDB itself, so that it looks the same.
        sizes_(rocksdb::CreateDBStatistics()),
        progress_(flags.db.progress || (console::stderr_is_terminal() && flags.count_only),
                  estimated_keys(*range.store, range.family), "keys") {}

  Status run(const OpenRange& range) {
    if (flags_.range.max_keys == 0) return Status::OK();
    const Status status =
        range.visit([this](const Slice& key, const Slice& value) { return add(key, value); });
    progress_.clear();
    return status;
  }

  void print_counts() const {
    if (by_group_) {
      groups_.print();
    } else {
      fmt::print("Keys in range: {}\n", count_);
    }
    if (!flags_.count_only) return;
    fmt::print("Value size distribution: \n{}\n",
               sizes_->getHistogramString(rocksdb::BYTES_PER_READ));
  }

 private:
  bool add(const Slice& key, const Slice& value) {
    ++count_;
    progress_.advance(1);
    if (by_group_) groups_.add(key, value);
    if (flags_.count_only) sizes_->recordInHistogram(rocksdb::BYTES_PER_READ, value.size());
    if (!by_group_ && !flags_.count_only) print(key, value);
    return flags_.range.max_keys < 0 || count_ < flags_.range.max_keys;
  }

  void print(const Slice& key, const Slice& value) const {
    const console::HexFlags& hex = flags_.db.hex;
    const std::string line =
        hex.show_key(key.ToString()) + " ==> " + hex.show_value(value.ToString()) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
  }

  const DumpFlags& flags_;
  const bool by_group_;
  Groups groups_;
  const std::shared_ptr<rocksdb::Statistics> sizes_;
  Estimate progress_;
  std::int64_t count_ = 0;
};

int run_dump(const DumpFlags& flags) {
  OpenRange range;
  const int opened = range.open(flags.db, flags.range);
  if (opened != console::kExitOk) return opened;
  std::string stats;
  if (flags.stats && range.store->tree().GetProperty("rocksdb.stats", &stats)) {
    fmt::print("{}\n", stats);
  }
  Dump dump(flags, range);
  const Status status = dump.run(range);
  dump.print_counts();
  if (status.ok()) return console::kExitOk;
  console::say_error("the dump is not complete", status, reading_advice(status, flags.db.db));
  return console::kExitFailed;
}

}  // namespace

console::Command add_dump(console::App* parent) {
  auto flags = std::make_shared<DumpFlags>();
  console::App* app =
      parent->add_subcommand("dump", "Print entries as `key ==> value`, or count them");
  flags->db.add_db(app);
  flags->db.add_family(app);
  flags->range.add_to(app);
  app->add_flag("--count_only", flags->count_only, "Count keys, and show how long values are");
  flags->count_delim_option =
      app->add_option("--count_delim", flags->count_delim,
                      "Count keys that are the same before this character (default `.`)")
          ->expected(0, 1);
  app->add_flag("--stats", flags->stats, "Print RocksDB's statistics of the files first");
  flags->db.add_progress(app, "Report once a second, even if not to a terminal");
  return {app, [flags] { return run_dump(*flags); }};
}

}  // namespace breccia::cli::db
