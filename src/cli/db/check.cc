#include <fmt/format.h>
#include <rocksdb/sst_file_reader.h>

#include <set>

#include "cli/db/commands.h"
#include "cli/db/db_flags.h"
#include "cli/db/estimate.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "record/operations.h"

namespace breccia::cli::db {

namespace {

struct CheckFlags {
  DbFlags db;
  bool verify_checksums = false;
};

/// Reads every block of every file.
Status verify_files(const ordered::ReadOnlyStore& store, bool progress) {
  std::vector<rocksdb::LiveFileMetaData> files;
  store.tree().GetLiveFilesMetaData(&files);
  std::uint64_t bytes = 0;
  for (const rocksdb::LiveFileMetaData& file : files) bytes += file.size;
  Estimate estimate(progress, bytes, "bytes");
  rocksdb::Options options = store.tree().GetOptions();
  for (const rocksdb::LiveFileMetaData& file : files) {
    rocksdb::SstFileReader reader(options);
    const std::string path = file.directory + "/" + file.relative_filename;
    BRECCIA_TRY(reader.Open(path));
    BRECCIA_TRY(reader.VerifyChecksum());
    estimate.advance(file.size);
  }
  return Status::OK();
}

/// Reads every entry of a family: tree and log merged, with their order.
Status verify_entries(const ordered::ReadOnlyStore& store, rocksdb::ColumnFamilyHandle* family,
                      bool progress) {
  Estimate estimate(progress, estimated_keys(store, family), "keys");
  std::string before;
  bool any = false;
  Status order;
  Status status =
      visit_entries(store, family, nullptr, nullptr, [&](const Slice& key, const Slice&) {
        estimate.advance(1);
        if (any && key.compare(before) <= 0) {
          order = Status::Corruption("column family " + family->GetName() + ": key 0x" +
                                         key.ToString(true) + " does not come after 0x" +
                                         Slice(before).ToString(true),
                                     "restore the database from a backup");
          return false;
        }
        any = true;
        before.assign(key.data(), key.size());
        return true;
      });
  estimate.clear();
  return status.ok() ? order : status;
}

/// What of the log is for families that are not there: they were dropped.
void say_dropped(const ordered::ReadOnlyStore& store) {
  std::set<FamilyId> there;
  for (rocksdb::ColumnFamilyHandle* family : store.families()) there.insert(family->GetID());
  std::uint64_t dropped = 0;
  for (const wal::RecoveredFrame& frame : store.log().frames) {
    record::for_each_operation(
        frame.records, frame.record_count,
        [&](const record::Operation& one) { dropped += there.contains(one.family) ? 0 : 1; });
  }
  if (dropped > 0) {
    console::say(fmt::format("{} records of the log are for column families that were dropped",
                             console::with_commas(dropped)));
  }
}

int damaged(const std::string& what, const Status& status) {
  console::say_error(what, status, "breccia db restore brings a backup back");
  return console::kExitFailed;
}

int run_check(const CheckFlags& flags) {
  // Opening the tree compares its files with the manifest: there, as long as it says, in order.
  const auto store = open_damaged(flags.db);
  if (store == nullptr) return console::kExitFailed;
  if (!store->log_status().ok()) {
    return damaged("the log does not fit the tree, or is damaged", store->log_status());
  }
  say_dropped(*store);
  const bool progress = flags.db.progress || console::stderr_is_terminal();
  if (flags.verify_checksums) {
    const Status status = verify_files(*store, progress);
    if (!status.ok()) return damaged("a file of the tree is damaged", status);
    for (rocksdb::ColumnFamilyHandle* family : store->families()) {
      const Status entries = verify_entries(*store, family, progress);
      if (entries.ok()) continue;
      if (!entries.IsInvalidArgument()) return damaged("an entry cannot be read", entries);
      console::say(fmt::format("column family {}: {}; {}", family->GetName(), entries.ToString(),
                               reading_advice(entries, flags.db.db)));
    }
  }
  fmt::print("OK\n");
  return console::kExitOk;
}

}  // namespace

console::Command add_checkconsistency(console::App* parent) {
  auto flags = std::make_shared<CheckFlags>();
  console::App* app = parent->add_subcommand(
      "checkconsistency",
      "Check files, log and watermark against each other; prints OK, else exit code 4");
  flags->db.add_db(app);
  app->add_flag("--verify_checksums", flags->verify_checksums,
                "Read every block of every file, and every entry, too");
  flags->db.add_progress(app, "Report once a second, even if not to a terminal");
  return {app, [flags] { return run_check(*flags); }};
}

}  // namespace breccia::cli::db
