#include <fmt/format.h>
#include <rocksdb/merge_operator.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "cli/db/commands.h"
#include "cli/db/db_flags.h"
#include "cli/db/estimate.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "ordered/statistics.h"
#include "record/operations.h"

namespace breccia::cli::db {

namespace {

/// What the log holds for one family.
struct InLog {
  std::array<std::uint64_t, record::kOpCount> operations{};
  std::uint64_t bytes = 0;
};
using InLogByFamily = std::map<FamilyId, InLog>;

InLogByFamily count_log(const wal::ReadLog& log) {
  InLogByFamily families;
  for (const wal::RecoveredFrame& frame : log.frames) {
    record::for_each_operation(frame.records, frame.record_count,
                               [&](const record::Operation& operation) {
                                 InLog& family = families[operation.family];
                                 ++family.operations[static_cast<std::size_t>(operation.op)];
                                 family.bytes += operation.key.size() + operation.value.size();
                               });
  }
  return families;
}

void print_log(const ordered::ReadOnlyStore& store) {
  fmt::print("** Log **\n");
  if (!store.owns_log()) {
    fmt::print("none: {}\n", store.is_store() ? "a copy of a store" : "a RocksDB database");
    return;
  }
  const wal::ReadLog& log = store.log();
  std::uint64_t bytes = 0;
  for (const wal::SegmentPtr& segment : log.segments) bytes += segment->size;
  fmt::print("folder: {}\nidentity: {:016x}\n", store.log_dir(), store.watermark().store_id);
  fmt::print("segments: {}, {} on the medium\n", log.segments.size(),
             console::human_bytes(static_cast<double>(bytes)));
  fmt::print("positions: in the tree below {}, in the log to {}\n", store.watermark().applied,
             log.recovery.end);
  fmt::print("not flushed: {} batches, {} records, {}\n", log.recovery.frames, log.recovery.entries,
             console::human_bytes(static_cast<double>(log.recovery.bytes)));
  fmt::print("dropped behind the end: {} bytes\n", log.recovery.dropped_bytes);
}

std::uint64_t figure(const ordered::ReadOnlyStore& store, rocksdb::ColumnFamilyHandle* family,
                     const char* name) {
  std::uint64_t value = 0;
  (void)store.tree().GetIntProperty(family, name, &value);
  return value;
}

void print_family(const ordered::ReadOnlyStore& store, rocksdb::ColumnFamilyHandle* family,
                  const InLog& in_log) {
  rocksdb::ColumnFamilyMetaData files;
  store.tree().GetColumnFamilyMetaData(family, &files);
  const ordered::FamilyView& view = *store.view().family(family->GetID());
  const auto merge_operator = store.tree().GetOptions(family).merge_operator;
  fmt::print("** Column family {} (id {}) **\n", family->GetName(), family->GetID());
  fmt::print("files: {}, {}; keys in them, estimated: {}\n", files.file_count,
             console::human_bytes(static_cast<double>(files.size)),
             figure(store, family, "rocksdb.estimate-num-keys"));
  const auto count = [&](record::Op op) { return in_log.operations[static_cast<std::size_t>(op)]; };
  fmt::print(
      "in the log: {} puts, {} deletes, {} single deletes, {} merges, {} range deletions, {} of "
      "keys and values\n",
      count(record::Op::kPut), count(record::Op::kDelete), count(record::Op::kSingleDelete),
      count(record::Op::kMerge), count(record::Op::kDeleteRange),
      console::human_bytes(static_cast<double>(in_log.bytes)));
  fmt::print("runs after a recovery: {}; range deletions: {}; merge operator: {}\n",
             view.runs.size(), view.tombstones == nullptr ? 0 : view.tombstones->size(),
             merge_operator == nullptr ? "none" : merge_operator->Name());
}

/// What the store counted up to its last closing, from RocksDB's file of messages; empty if that
/// does not tell.
std::string last_statistics(const std::string& path) {
  std::ifstream messages(path);
  std::string found;
  bool inside = false;
  for (std::string line; std::getline(messages, line);) {
    if (line.find(ordered::kStatisticsMark) != std::string::npos) {
      found.clear();
      inside = true;
    } else if (inside && line.starts_with("breccia.")) {
      found += line + "\n";
    } else {
      inside = false;
    }
  }
  return found;
}

void print_statistics(const std::string& db) {
  // RocksDB begins a new file with each opening and names the old ones by their time.
  std::vector<std::string> paths = {db + "/LOG"};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(db, ignored)) {
    if (entry.path().filename().string().starts_with("LOG.old.")) paths.push_back(entry.path());
  }
  std::sort(paths.begin() + 1, paths.end(), std::greater<>());
  for (const std::string& path : paths) {
    const std::string statistics = last_statistics(path);
    if (statistics.empty()) continue;
    fmt::print("** Counted up to the last closing ({}) **\n{}", path, statistics);
    return;
  }
}

int run_stats(const DbFlags& flags) {
  const auto store = open_to_look(flags);
  if (store == nullptr) return console::kExitFailed;
  print_log(*store);
  print_statistics(flags.db);
  InLogByFamily in_log = count_log(store->log());
  for (rocksdb::ColumnFamilyHandle* family : store->families()) {
    print_family(*store, family, in_log[family->GetID()]);
  }
  for (const char* property : {"rocksdb.levelstats", "rocksdb.sstables"}) {
    for (rocksdb::ColumnFamilyHandle* family : store->families()) {
      std::string text;
      if (!store->tree().GetProperty(family, property, &text)) continue;
      fmt::print("** {} of {} **\n{}\n", property, family->GetName(), text);
    }
  }
  return console::kExitOk;
}

}  // namespace

console::Command add_stats(console::App* parent) {
  auto flags = std::make_shared<DbFlags>();
  console::App* app = parent->add_subcommand(
      "stats", "Print what a store holds: its log, its families, their files by level");
  flags->add_db(app);
  return {app, [flags] { return run_stats(*flags); }};
}

}  // namespace breccia::cli::db
