#include "tree/copies.h"

#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <vector>

#include "tree/layout.h"
#include "wal/files_env.h"
#include "wal/log_open.h"

namespace breccia::tree {

namespace {

/// The database opened by RocksDB itself.
struct OpenTree {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;

  ~OpenTree() {
    for (auto* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
};

Status open_tree(const Options& options, const std::string& name,
                 const std::vector<std::string>& families, OpenTree* tree) {
  std::map<std::string, rocksdb::ColumnFamilyOptions> known;
  for (const auto& [family, family_options] : options.families) known[family] = family_options;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const std::string& family : families) {
    const auto at = known.find(family);
    rocksdb::ColumnFamilyOptions family_options = options.rocksdb;
    if (at != known.end()) family_options = at->second;
    if (is_reserved(family)) family_options = rocksdb::ColumnFamilyOptions();
    without_memtables(&family_options);
    descriptors.emplace_back(family, family_options);
  }
  rocksdb::DBOptions db_options = options.rocksdb;
  without_memtables(&db_options);
  db_options.create_if_missing = false;
  db_options.error_if_exists = false;
  rocksdb::DB* db = nullptr;
  BRECCIA_TRY(rocksdb::DB::Open(db_options, name, descriptors, &tree->handles, &db));
  tree->db.reset(db);
  return Status::OK();
}

/// The note of a restore that is under way. RocksDB leaves folders in a database's alone, also
/// where it restores a backup.
std::string restore_note(const std::string& path) {
  return path + "/" + kStagingFolder + "/restore-unfinished";
}

}  // namespace

Status sync_folder(rocksdb::Env* env, const std::string& path) {
  std::unique_ptr<rocksdb::Directory> folder;
  BRECCIA_TRY(env->NewDirectory(path, &folder));
  return folder->Fsync();
}

Result<std::uint64_t> read_mark(rocksdb::Env* env, const std::string& path) {
  const std::string name = path + "/" + kStoreMark;
  if (env->FileExists(name).IsNotFound()) return std::uint64_t{0};
  std::string text;
  BRECCIA_TRY(rocksdb::ReadFileToString(env, name, &text));
  std::uint64_t store_id = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, store_id, 16);
  if (read.ec != std::errc() || read.ptr + 1 != end || *read.ptr != '\n' || store_id == 0) {
    return Status::Corruption(name + ": this is not the identity of a log",
                              "Restore the file from a copy of the folder, or restore the database "
                              "from a backup.");
  }
  return store_id;
}

Status write_mark(rocksdb::Env* env, const std::string& path, std::uint64_t store_id) {
  const std::string name = path + "/" + kStoreMark;
  const std::string unfinished = name + ".new";
  BRECCIA_TRY(rocksdb::WriteStringToFile(env, fmt::format("{:016x}\n", store_id), unfinished,
                                         /*should_sync=*/true));
  BRECCIA_TRY(env->RenameFile(unfinished, name));
  return sync_folder(env, path);
}

Status check_no_log(const Options& options, const std::string& path) {
  const std::string folder = log_folder(options, path);
  auto files = wal::files_of(options.rocksdb.env);
  if (files == nullptr) files = wal::real_files();
  BRECCIA_TAKE(const std::uint64_t store_id, wal::log_identity(folder, files));
  if (store_id == 0) return Status::OK();
  return Status::Corruption(
      folder + ": the log in this folder belongs to another store",
      fmt::format(
          "Nothing was changed. {} is new, or a copy of a store, or restored: it has no file "
          "{} with that log's identity, {:016x}. Set Options::wal_dir to a folder without a "
          "log; if nobody needs that log any more, remove it.",
          path, kStoreMark, store_id));
}

Status begin_restore(rocksdb::Env* env, const std::string& path) {
  const std::string folder = path + "/" + kStagingFolder;
  BRECCIA_TRY(env->CreateDirIfMissing(path));
  BRECCIA_TRY(env->CreateDirIfMissing(folder));
  BRECCIA_TRY(rocksdb::WriteStringToFile(env, "", restore_note(path), /*should_sync=*/true));
  BRECCIA_TRY(sync_folder(env, folder));
  return sync_folder(env, path);
}

Status end_restore(rocksdb::Env* env, const std::string& path) {
  BRECCIA_TRY(env->DeleteFile(restore_note(path)));
  return sync_folder(env, path + "/" + kStagingFolder);
}

Status check_restored(rocksdb::Env* env, const std::string& path) {
  const Status noted = env->FileExists(restore_note(path));
  if (noted.IsNotFound()) return Status::OK();
  BRECCIA_TRY(noted);
  return Status::Corruption(path + ": a restore to this folder did not end",
                            "Run `breccia db restore` again.");
}

Status drop_own_families(const Options& options, const std::string& name) {
  std::vector<std::string> families;
  if (!rocksdb::DB::ListColumnFamilies(options.rocksdb, name, &families).ok()) return Status::OK();
  if (std::none_of(families.begin(), families.end(), is_reserved)) return Status::OK();
  OpenTree tree;
  BRECCIA_TRY(open_tree(options, name, families, &tree));
  for (std::size_t i = 0; i < families.size(); ++i) {
    if (is_reserved(families[i])) BRECCIA_TRY(tree.db->DropColumnFamily(tree.handles[i]));
  }
  return Status::OK();
}

}  // namespace breccia::tree
