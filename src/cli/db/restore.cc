#include "cli/db/restore.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/utilities/backup_engine.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "cli/db/estimate.h"
#include "console/console.h"
#include "tree/copies.h"
#include "wal/log_open.h"

namespace breccia::cli::db {

namespace {

namespace fs = std::filesystem;

// ---- the log that goes --------------------------------------------------------------------------

/// The folder of the log to remove; empty: there is none that may be. It is the store's if it bears
/// the identity in the mark, or lies in the store's own folder.
/// Errors  IOError: somebody has the database or the log open; InvalidArgument: the database has a
///         log, and it is not where it was looked for.
Result<std::string> log_to_remove(const DbFlags& flags) {
  const Options options = stored_options(flags);
  const std::string folder = tree::log_folder(options, flags.db);
  rocksdb::Env* const env = rocksdb::Env::Default();
  {
    // Takes the locks; whether what is there can be read does not matter.
    const auto store = ordered::ReadOnlyStore::open_damaged(options, flags.db);
    if (!store.ok() && store.status().IsIOError()) return store.status();
  }
  const auto log = wal::log_identity(folder);
  if (!log.ok() && log.status().IsIOError()) return log.status();
  const auto mark = tree::read_mark(env, flags.db);
  const bool has_mark = !mark.ok() || mark.value() != 0;
  const bool is_inside = options.wal_dir.empty();
  if (log.ok() && log.value() == 0) {
    // It may be lost, which is a reason to restore, but then the user has looked for it.
    const bool is_known = !flags.wal_dir.empty() || !tree::check_restored(env, flags.db).ok();
    if (!has_mark || is_known) return std::string();
    return Status::InvalidArgument(
        flags.db + " is a store, and its log is not in " + folder,
        "it would come back over what is restored; name its folder with --wal_dir, "
        "also if the log is lost");
  }
  if (is_inside) return folder;
  if (!has_mark) {
    console::say(fmt::format("the log in {} is not known as this database's and stays", folder));
    return std::string();
  }
  // A log that is too damaged to tell is taken for the one that belongs here.
  if (!log.ok() || !mark.ok() || log.value() == mark.value()) return folder;
  return Status::InvalidArgument("the log in " + folder + " belongs to another store",
                                 "name the folder of this one's with --wal_dir");
}

Status remove_log(const std::string& folder) {
  auto lock = wal::read_only_files()->lock(folder);
  BRECCIA_TRY(lock.status());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".log") || name.ends_with(".new")) fs::remove(entry, error);
    if (error) return Status::IOError("remove " + entry.path().string(), error.message());
  }
  return error ? Status::IOError("list " + folder, error.message()) : Status::OK();
}

// ---- the tree -----------------------------------------------------------------------------------

/// What is to come back.
class Source {
 public:
  virtual ~Source() = default;
  /// Errors  those of the source: it cannot be restored.
  virtual Status verify() = 0;
  /// Puts it into the place of the tree in `db`.
  virtual Status copy_to(const std::string& db, const AfterStep& after_step) = 0;
};

class Backup final : public Source {
 public:
  explicit Backup(const CopyFlags& flags) : flags_(flags) {}

  Status verify() override {
    rocksdb::BackupEngineOptions options(flags_.backup_dir);
    options.max_background_operations = flags_.num_threads;
    rocksdb::BackupEngineReadOnly* opened = nullptr;
    BRECCIA_TRY(rocksdb::BackupEngineReadOnly::Open(rocksdb::Env::Default(), options, &opened));
    engine_.reset(opened);
    fmt::print("open restore engine OK\n");
    BRECCIA_TRY(engine_->GetLatestBackupInfo(&latest_));
    return engine_->VerifyBackup(latest_.backup_id);
  }

  Status copy_to(const std::string& db, const AfterStep&) override {
    const FolderGrowth growth(flags_.shows_progress(), db, latest_.size);
    return engine_->RestoreDBFromBackup(latest_.backup_id, db, db);
  }

 private:
  const CopyFlags& flags_;
  std::unique_ptr<rocksdb::BackupEngineReadOnly> engine_;
  rocksdb::BackupInfo latest_;
};

class Checkpoint final : public Source {
 public:
  explicit Checkpoint(const CopyFlags& flags) : flags_(flags) {}

  Status verify() override {
    DbFlags source = flags_.db;
    source.db = flags_.checkpoint_dir;
    source.wal_dir.clear();
    BRECCIA_TAKE(const auto store,
                 ordered::ReadOnlyStore::open(stored_options(source), flags_.checkpoint_dir));
    if (store->owns_log()) {
      return Status::InvalidArgument(flags_.checkpoint_dir + " is a store in use, not a checkpoint",
                                     "make one: breccia db checkpoint");
    }
    fmt::print("open checkpoint OK\n");
    return Status::OK();
  }

  Status copy_to(const std::string& db, const AfterStep& after_step) override {
    BRECCIA_TRY(rocksdb::DestroyDB(db, rocksdb::Options()));
    BRECCIA_TRY(after_step());
    const FolderGrowth growth(flags_.shows_progress(), db, folder_bytes(flags_.checkpoint_dir));
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(flags_.checkpoint_dir, error)) {
      if (!entry.is_regular_file()) continue;
      fs::copy_file(entry, fs::path(db) / entry.path().filename(), error);
      if (error) return Status::IOError("copy " + entry.path().string(), error.message());
      BRECCIA_TRY(after_step());
    }
    return error ? Status::IOError("list " + flags_.checkpoint_dir, error.message()) : Status::OK();
  }

 private:
  const CopyFlags& flags_;
};

Status sync_path(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_synced = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return is_synced ? Status::OK() : Status::IOError("sync " + path.string(), std::strerror(error));
}

/// Makes the files in `folder` durable, and their names and its own.
Status sync_files(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file()) BRECCIA_TRY(sync_path(entry));
  }
  if (error) return Status::IOError("list " + folder.string(), error.message());
  BRECCIA_TRY(sync_path(folder));
  return sync_path(fs::canonical(folder).parent_path());
}

}  // namespace

bool CopyFlags::shows_progress() const { return db.progress || console::stderr_is_terminal(); }

Status restore(const CopyFlags& flags, const AfterStep& after_step) {
  rocksdb::Env* const env = rocksdb::Env::Default();
  const std::string& db = flags.db.db;
  std::unique_ptr<Source> source;
  if (flags.checkpoint_dir.empty()) {
    source = std::make_unique<Backup>(flags);
  } else {
    source = std::make_unique<Checkpoint>(flags);
  }
  BRECCIA_TRY(source->verify());
  BRECCIA_TAKE(const std::string log, log_to_remove(flags.db));
  std::error_code error;
  fs::create_directories(db, error);
  BRECCIA_TRY(tree::begin_restore(env, db));
  BRECCIA_TRY(after_step());
  if (!log.empty()) {
    BRECCIA_TRY(remove_log(log));
    BRECCIA_TRY(sync_path(log));
    BRECCIA_TRY(after_step());
  }
  fs::remove(db + "/" + tree::kStoreMark, error);
  if (error) return Status::IOError("remove the mark of " + db, error.message());
  BRECCIA_TRY(after_step());
  BRECCIA_TRY(source->copy_to(db, after_step));
  BRECCIA_TRY(sync_files(db));
  BRECCIA_TRY(after_step());
  BRECCIA_TRY(tree::end_restore(env, db));
  BRECCIA_TRY(after_step());
  fs::remove_all(db + "/" + tree::kStagingFolder, error);  // an empty one does no harm
  return Status::OK();
}

}  // namespace breccia::cli::db
