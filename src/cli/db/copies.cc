#include <breccia/rocks.h>
#include <fmt/format.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <filesystem>

#include "cli/db/commands.h"
#include "cli/db/db_flags.h"
#include "cli/db/estimate.h"
#include "cli/db/restore.h"
#include "console/console.h"
#include "console/exit_codes.h"

/// checkpoint, backup, restore. A copy holds everything that was written before it: the store is
/// flushed first, so that the files are complete without its log.

namespace breccia::cli::db {

namespace {

int failed(const std::string& what, const Status& status, const std::string& next) {
  console::say_error(what, status, next);
  return console::kExitFailed;
}

/// Opens the store for writing with all its families. Null, with words on stderr, if that fails.
class OpenStore {
 public:
  OpenStore(const DbFlags& flags, bool convert) {
    const Options options = stored_options(flags);
    std::vector<std::string> names;
    Status status = convert ? Status::OK() : console::check_is_store(options, flags.db);
    if (status.ok()) status = Rocks::ListColumnFamilies(options.rocksdb, flags.db, &names);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, family_of(options, name));
    rocksdb::DB* db = nullptr;
    if (status.ok()) status = Rocks::Open(options, flags.db, families, &handles_, &db);
    db_.reset(db);
    if (!status.ok()) {
      console::say_error(
          fmt::format("cannot open the database in {}", flags.db), status,
          status.IsCorruption() ? "breccia db checkconsistency; then breccia db restore"
          : status.IsInvalidArgument()
              ? "copy it with RocksDB's own means, or add --convert to make a store of it"
              : "see whether another process holds it, and --db");
    }
  }
  ~OpenStore() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
  }
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;

  [[nodiscard]] rocksdb::DB* get() const { return db_.get(); }

 private:
  static rocksdb::ColumnFamilyOptions family_of(const Options& options, const std::string& name) {
    for (const auto& [known, family] : options.families) {
      if (known == name) return family;
    }
    return options.rocksdb;
  }

  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

rocksdb::BackupEngineOptions backup_options(const CopyFlags& flags) {
  rocksdb::BackupEngineOptions options(flags.backup_dir);
  options.max_background_operations = flags.num_threads;
  return options;
}

int run_checkpoint(const CopyFlags& flags) {
  const OpenStore store(flags.db, flags.convert);
  if (store.get() == nullptr) return console::kExitFailed;
  const FolderGrowth growth(flags.shows_progress(), flags.db.db, 0);
  rocksdb::Checkpoint* made = nullptr;
  Status status = rocksdb::Checkpoint::Create(store.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(flags.checkpoint_dir);
  if (!status.ok()) {
    return failed(fmt::format("no checkpoint was made in {}", flags.checkpoint_dir), status,
                  "the folder must not exist yet, and its parent must");
  }
  fmt::print("OK\n");
  return console::kExitOk;
}

int run_backup(const CopyFlags& flags) {
  const OpenStore store(flags.db, flags.convert);
  if (store.get() == nullptr) return console::kExitFailed;
  fmt::print("open db OK\n");
  rocksdb::BackupEngine* opened = nullptr;
  Status status =
      rocksdb::BackupEngine::Open(rocksdb::Env::Default(), backup_options(flags), &opened);
  const std::unique_ptr<rocksdb::BackupEngine> engine(opened);
  if (!status.ok()) return failed("cannot open the backups", status, "check --backup_dir");
  fmt::print("open backup engine OK\n");
  {
    const FolderGrowth growth(flags.shows_progress(), flags.backup_dir, folder_bytes(flags.db.db));
    status = engine->CreateNewBackup(store.get());
  }
  if (!status.ok()) return failed("no backup was made", status, "make room, then run it again");
  fmt::print("create new backup OK\n");
  return console::kExitOk;
}

int run_restore(const CopyFlags& flags) {
  if (flags.backup_dir.empty() == flags.checkpoint_dir.empty()) {
    console::say("error: name one: --backup_dir=DIR or --checkpoint_dir=DIR");
    return console::kExitUsage;
  }
  const bool from_backup = !flags.backup_dir.empty();
  const Status status = restore(flags, [] { return Status::OK(); });
  if (!status.ok()) {
    return failed(fmt::format("nothing whole was restored to {}", flags.db.db), status,
                  "mend the cause, then run it again");
  }
  fmt::print("restore from {} OK\n", from_backup ? "backup" : "checkpoint");
  return console::kExitOk;
}

console::Command add(console::App* parent, const char* name, const char* help,
                     const std::function<void(console::App*, CopyFlags*)>& add_own,
                     int (*run)(const CopyFlags& flags)) {
  auto flags = std::make_shared<CopyFlags>();
  console::App* app = parent->add_subcommand(name, help);
  flags->db.add_db(app);
  add_own(app, flags.get());
  flags->db.add_progress(app, "Report once a second, even if not to a terminal");
  return {app, [flags, run] { return run(*flags); }};
}

void add_threads(console::App* app, CopyFlags* flags) {
  app->add_option("--num_threads", flags->num_threads, "Threads that copy files")
      ->range(1, 256)
      ->capture_default_str();
}

}  // namespace

console::Command add_checkpoint(console::App* parent) {
  return add(
      parent, "checkpoint",
      "Flush, and make a copy that opens as a store and as a plain RocksDB database",
      [](console::App* app, CopyFlags* flags) {
        app->add_option("--checkpoint_dir", flags->checkpoint_dir, "Folder to make")->required();
        console::add_convert_flag(app, &flags->convert);
      },
      &run_checkpoint);
}

console::Command add_backup(console::App* parent) {
  return add(
      parent, "backup", "Flush, and add a backup to those in a folder",
      [](console::App* app, CopyFlags* flags) {
        app->add_option("--backup_dir", flags->backup_dir, "Folder of the backups")->required();
        console::add_convert_flag(app, &flags->convert);
        add_threads(app, flags);
      },
      &run_backup);
}

console::Command add_restore(console::App* parent) {
  return add(
      parent, "restore",
      "Put the latest backup, or a checkpoint, into the place of the database and its log",
      [](console::App* app, CopyFlags* flags) {
        app->add_option("--backup_dir", flags->backup_dir, "Folder of the backups");
        app->add_option("--checkpoint_dir", flags->checkpoint_dir, "Folder of a checkpoint");
        add_threads(app, flags);
      },
      &run_restore);
}

}  // namespace breccia::cli::db
