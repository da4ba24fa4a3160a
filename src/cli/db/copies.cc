#include <breccia/rocks.h>
#include <fmt/format.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <filesystem>

#include "cli/console.h"
#include "cli/db/commands.h"
#include "cli/db/db_flags.h"
#include "cli/db/estimate.h"
#include "cli/exit_codes.h"
#include "rocks/copies.h"

/// checkpoint, backup, restore. A copy holds everything that was written before it: the store is
/// flushed first, so that the files are complete without its log.

namespace breccia::cli::db {

namespace {

namespace fs = std::filesystem;

struct CopyFlags {
  DbFlags db;
  std::string checkpoint_dir;
  std::string backup_dir;
  int num_threads = 1;
  bool convert = false;

  [[nodiscard]] bool shows_progress() const { return db.progress || stderr_is_terminal(); }
};

int failed(const std::string& what, const Status& status, const std::string& next) {
  say_error(what, status, next);
  return kExitFailed;
}

/// Opens the store for writing with all its families. Null, with words on stderr, if that fails.
class OpenStore {
 public:
  OpenStore(const DbFlags& flags, bool convert) {
    const Options options = stored_options(flags);
    std::vector<std::string> names;
    Status status = convert ? Status::OK() : check_is_store(options, flags.db);
    if (status.ok()) status = Rocks::ListColumnFamilies(options.rocksdb, flags.db, &names);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, family_of(options, name));
    rocksdb::DB* db = nullptr;
    if (status.ok()) status = Rocks::Open(options, flags.db, families, &handles_, &db);
    db_.reset(db);
    if (!status.ok()) {
      say_error(fmt::format("cannot open the database in {}", flags.db), status,
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

// ---- out ---------------------------------------------------------------------------------------

int run_checkpoint(const CopyFlags& flags) {
  const OpenStore store(flags.db, flags.convert);
  if (store.get() == nullptr) return kExitFailed;
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
  return kExitOk;
}

int run_backup(const CopyFlags& flags) {
  const OpenStore store(flags.db, flags.convert);
  if (store.get() == nullptr) return kExitFailed;
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
  return kExitOk;
}

// ---- back --------------------------------------------------------------------------------------

/// Finds out whether a database in `flags.db` may be overwritten, and removes its log: the log of
/// what was there before must not be taken for the log of what comes back. Files go afterwards, so
/// that a crash in between leaves a store that reports its log as missing.
Status clear_log(const DbFlags& flags) {
  const Options options = stored_options(flags);
  const std::string folder = rocks::log_folder(options, flags.db);
  {
    // Takes the locks; whether what is there can be read does not matter.
    auto store = rocks::ReadOnlyStore::open_damaged(options, flags.db);
    if (!store.ok() && store.status().IsIOError()) return store.status();
  }
  std::error_code error;
  if (!fs::exists(folder, error)) return Status::OK();
  auto lock = wal::read_only_files()->lock(folder);
  BRECCIA_TRY(lock.status());
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".log") || name.ends_with(".new")) fs::remove(entry, error);
    if (error) return Status::IOError("remove " + entry.path().string(), error.message());
  }
  return error ? Status::IOError("list " + folder, error.message()) : Status::OK();
}

/// A restored database is a copy: it must not look like the store that was there.
void clear_staging(const std::string& db) {
  std::error_code ignored;
  fs::remove_all(db + "/" + rocks::kStagingFolder, ignored);
  fs::remove(db + "/" + rocks::kStoreMark, ignored);
}

Status restore_backup(const CopyFlags& flags) {
  rocksdb::BackupEngineReadOnly* opened = nullptr;
  BRECCIA_TRY(
      rocksdb::BackupEngineReadOnly::Open(rocksdb::Env::Default(), backup_options(flags), &opened));
  const std::unique_ptr<rocksdb::BackupEngineReadOnly> engine(opened);
  fmt::print("open restore engine OK\n");
  rocksdb::BackupInfo latest;
  BRECCIA_TRY(engine->GetLatestBackupInfo(&latest));
  BRECCIA_TRY(engine->VerifyBackup(latest.backup_id));
  BRECCIA_TRY(clear_log(flags.db));
  clear_staging(flags.db.db);
  const FolderGrowth growth(flags.shows_progress(), flags.db.db, latest.size);
  return engine->RestoreDBFromBackup(latest.backup_id, flags.db.db, flags.db.db);
}

/// Copies the checkpoint's files into the place of the database's.
Status restore_checkpoint(const CopyFlags& flags) {
  const std::string& db = flags.db.db;
  DbFlags source = flags.db;
  source.db = flags.checkpoint_dir;
  source.wal_dir.clear();
  {
    BRECCIA_TAKE(const auto store,
                 rocks::ReadOnlyStore::open(stored_options(source), flags.checkpoint_dir));
    if (store->is_store() && !store->is_copy()) {
      return Status::InvalidArgument(flags.checkpoint_dir + " is a store in use, not a checkpoint",
                                     "make one: breccia db checkpoint");
    }
  }
  fmt::print("open checkpoint OK\n");
  BRECCIA_TRY(clear_log(flags.db));
  clear_staging(db);
  if (fs::exists(db + "/CURRENT")) {
    BRECCIA_TRY(rocksdb::DestroyDB(db, rocksdb::Options()));
  }
  const FolderGrowth growth(flags.shows_progress(), db, folder_bytes(flags.checkpoint_dir));
  std::error_code error;
  fs::create_directories(db, error);
  // CURRENT last: without it nobody takes the files for a database.
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(flags.checkpoint_dir, error)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::stable_partition(files.begin(), files.end(),
                        [](const fs::path& file) { return file.filename() != "CURRENT"; });
  for (const fs::path& file : files) {
    if (!error) fs::copy_file(file, fs::path(db) / file.filename(), error);
    if (error) return Status::IOError("copy " + file.string(), error.message());
  }
  return error ? Status::IOError("copy to " + db, error.message()) : Status::OK();
}

int run_restore(const CopyFlags& flags) {
  if (flags.backup_dir.empty() == flags.checkpoint_dir.empty()) {
    say("error: name one: --backup_dir=DIR or --checkpoint_dir=DIR");
    return kExitUsage;
  }
  const bool from_backup = !flags.backup_dir.empty();
  const Status status = from_backup ? restore_backup(flags) : restore_checkpoint(flags);
  if (!status.ok()) {
    return failed(fmt::format("nothing whole was restored to {}", flags.db.db), status,
                  "mend the cause, then run it again");
  }
  fmt::print("restore from {} OK\n", from_backup ? "backup" : "checkpoint");
  return kExitOk;
}

Command add(CLI::App* parent, const char* name, const char* help,
            const std::function<void(CLI::App*, CopyFlags*)>& add_own,
            int (*run)(const CopyFlags& flags)) {
  auto flags = std::make_shared<CopyFlags>();
  CLI::App* app = parent->add_subcommand(name, help);
  flags->db.add_db(app);
  add_own(app, flags.get());
  flags->db.add_progress(app, "Report once a second, even if not to a terminal");
  return {app, [flags, run] { return run(*flags); }};
}

void add_threads(CLI::App* app, CopyFlags* flags) {
  app->add_option("--num_threads", flags->num_threads, "Threads that copy files")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

}  // namespace

Command add_checkpoint(CLI::App* parent) {
  return add(
      parent, "checkpoint",
      "Flush, and make a copy that opens as a store and as a plain RocksDB database",
      [](CLI::App* app, CopyFlags* flags) {
        app->add_option("--checkpoint_dir", flags->checkpoint_dir, "Folder to make")->required();
        add_convert_flag(app, &flags->convert);
      },
      &run_checkpoint);
}

Command add_backup(CLI::App* parent) {
  return add(
      parent, "backup", "Flush, and add a backup to those in a folder",
      [](CLI::App* app, CopyFlags* flags) {
        app->add_option("--backup_dir", flags->backup_dir, "Folder of the backups")->required();
        add_convert_flag(app, &flags->convert);
        add_threads(app, flags);
      },
      &run_backup);
}

Command add_restore(CLI::App* parent) {
  return add(
      parent, "restore",
      "Put the latest backup, or a checkpoint, into the place of the database and its log",
      [](CLI::App* app, CopyFlags* flags) {
        app->add_option("--backup_dir", flags->backup_dir, "Folder of the backups");
        app->add_option("--checkpoint_dir", flags->checkpoint_dir, "Folder of a checkpoint");
        add_threads(app, flags);
      },
      &run_restore);
}

}  // namespace breccia::cli::db
