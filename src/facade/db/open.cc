#include <breccia/rocks.h>
#include <rocksdb/utilities/options_util.h>

#include <filesystem>

#include "base/memory.h"
#include "facade/db/core.h"
#include "tree/copies.h"
#include "tree/tree.h"
#include "wal/log_open.h"

/// Rocks: opening, closing, destroying.

namespace breccia {

namespace {

Status open_core(const Options& options, const std::string& name,
                 const facade::Descriptors& families, std::unique_ptr<facade::Core>* core) {
  BRECCIA_TRY(facade::check_families(options, name, families));
  return facade::Core::open(options, name, core);
}

facade::Descriptors default_family(const rocksdb::ColumnFamilyOptions& options) {
  return {rocksdb::ColumnFamilyDescriptor(rocksdb::kDefaultColumnFamilyName, options)};
}

/// Removes the files of a log, and its folder if nothing else is there.
void remove_log(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = name == "LOCK" || name.ends_with(".log") || name.ends_with(".new");
    if (is_ours) fs::remove(entry, ignored);
  }
  fs::remove(folder, ignored);
}

/// Errors  InvalidArgument: there are transactions that were prepared and neither committed nor
///         rolled back.
Status check_nothing_prepared(const facade::Core& core) {
  for (const tree::TreeFamily& family : core.engine().below().families()) {
    if (family->GetName() != tree::kPreparedFamily) continue;
    const auto prepared = core.engine().lookups().iterate(rocksdb::ReadOptions(), family->GetID(),
                                                          core.engine().pin(), /*repin=*/{});
    prepared->SeekToFirst();
    if (prepared->Valid()) {
      return Status::InvalidArgument("there are prepared transactions",
                                     "open it as a breccia::TransactionDB and end them");
    }
    BRECCIA_TRY(prepared->status());
  }
  return Status::OK();
}

/// True if the log where `options` say is no other store's. One that lies elsewhere may be, as a
/// copy has the options of its original.
bool is_own_log(const Options& options, const std::string& name) {
  if (options.wal_dir.empty()) return true;
  const auto mark = tree::read_mark(options.rocksdb.env, name);
  const auto log = wal::log_identity(options.wal_dir);
  return mark.ok() && log.ok() && mark.value() != 0 && log.value() == mark.value();
}

/// Removes what a store has and a RocksDB database has not. The mark last: until then the log is
/// known as this store's.
void remove_beside_tree(const Options& options, const std::string& name) {
  if (is_own_log(options, name)) remove_log(tree::log_folder(options, name));
  std::error_code ignored;
  std::filesystem::remove_all(name + "/" + tree::kStagingFolder, ignored);
  std::filesystem::remove(name + "/" + tree::kLogNote, ignored);
  std::filesystem::remove(name + "/" + tree::kStoreMark, ignored);
}

}  // namespace

Rocks::Rocks(std::unique_ptr<facade::Core> core)
    : StackableDB(core->shared_tree()), core_(std::move(core)) {
  core_->engine().listeners().open(this);
}

Rocks::~Rocks() {
  core_->snapshots().release_all();
  core_->leave_iterators();
  Close().PermitUncheckedError();
}

Status Rocks::Open(const Options& options, const std::string& name, DB** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    Options without_families = options;
    without_families.families.clear();
    std::unique_ptr<facade::Core> core;
    BRECCIA_TRY(open_core(without_families, name, default_family(options.rocksdb), &core));
    *db = new Rocks(std::move(core));
    return Status::OK();
  });
}

Status Rocks::Open(const Options& options, const std::string& name,
                   const std::vector<Descriptor>& column_families, std::vector<Handle*>* handles,
                   DB** db) {
  *db = nullptr;
  handles->clear();
  return base::or_memory_limit([&] {
    Options with_families = options;
    facade::set_families(column_families, &with_families);
    std::unique_ptr<facade::Core> core;
    BRECCIA_TRY(open_core(with_families, name, column_families, &core));
    std::vector<std::unique_ptr<facade::Handle>> made;
    for (const Descriptor& family : column_families) {
      made.push_back(core->make_handle(family.name, facade::Holder::kUser));
    }
    handles->reserve(made.size());
    *db = new Rocks(std::move(core));
    for (auto& handle : made) handles->push_back(handle.release());
    return Status::OK();
  });
}

Status Rocks::Open(const rocksdb::Options& options, const std::string& name, DB** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    return Open(facade::engine_options(options, name, default_family(options)), name, db);
  });
}

Status Rocks::Open(const rocksdb::DBOptions& options, const std::string& name,
                   const std::vector<Descriptor>& column_families, std::vector<Handle*>* handles,
                   DB** db) {
  *db = nullptr;
  return base::or_memory_limit([&] {
    return Open(facade::engine_options(options, name, column_families), name, column_families,
                handles, db);
  });
}

Status Rocks::OpenForReadOnly(const rocksdb::Options& options, const std::string& name, DB** db,
                              bool error_if_wal_file_exists) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(tree::check_restored(options.env, name));
    if (!facade::is_store(options, name)) {
      return DB::OpenForReadOnly(options, name, db, error_if_wal_file_exists);
    }
    std::vector<Handle*> handles;
    BRECCIA_TRY(OpenForReadOnly(options, name, default_family(options), &handles, db,
                                error_if_wal_file_exists));
    return (*db)->DestroyColumnFamilyHandle(handles.front());
  });
}

Status Rocks::OpenForReadOnly(const rocksdb::DBOptions& options, const std::string& name,
                              const std::vector<Descriptor>& column_families,
                              std::vector<Handle*>* handles, DB** db,
                              bool error_if_wal_file_exists) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(tree::check_restored(options.env, name));
    if (!facade::is_store(options, name)) {
      return DB::OpenForReadOnly(options, name, column_families, handles, db,
                                 error_if_wal_file_exists);
    }
    // CreateColumnFamily of a read-only database writes a MANIFEST with the families that were
    // opened (RocksDB 7.8; `ldb create_column_family` does it): ours must be among them.
    std::vector<std::string> names;
    BRECCIA_TRY(DB::ListColumnFamilies(options, name, &names));
    std::vector<Descriptor> with_hidden = column_families;
    for (const std::string& family : names) {
      if (!tree::is_reserved(family)) continue;
      with_hidden.emplace_back(family, rocksdb::ColumnFamilyOptions());
    }
    BRECCIA_TRY(
        DB::OpenForReadOnly(options, name, with_hidden, handles, db, error_if_wal_file_exists));
    while (handles->size() > column_families.size()) {
      BRECCIA_TRY((*db)->DestroyColumnFamilyHandle(handles->back()));
      handles->pop_back();
    }
    return Status::OK();
  });
}

Status Rocks::OpenAsSecondary(const rocksdb::Options& options, const std::string& name,
                              const std::string& secondary_path, DB** db) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(tree::check_restored(options.env, name));
    return DB::OpenAsSecondary(options, name, secondary_path, db);
  });
}

Status Rocks::OpenAsSecondary(const rocksdb::DBOptions& options, const std::string& name,
                              const std::string& secondary_path,
                              const std::vector<Descriptor>& column_families,
                              std::vector<Handle*>* handles, DB** db) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(tree::check_restored(options.env, name));
    return DB::OpenAsSecondary(options, name, secondary_path, column_families, handles, db);
  });
}

Status Rocks::OpenAndTrimHistory(const rocksdb::DBOptions&, const std::string&,
                                 const std::vector<Descriptor>&, std::vector<Handle*>*, DB** db,
                                 std::string) {
  *db = nullptr;
  return Status::NotSupported("OpenAndTrimHistory: breccia has no user-defined timestamps");
}

Status Rocks::ListColumnFamilies(const rocksdb::DBOptions& options, const std::string& name,
                                 std::vector<std::string>* column_families) {
  return base::or_memory_limit(
      [&] { return facade::list_families(options, name, column_families); });
}

Status Rocks::Close() {
  const Status status = core_->close();
  if (status.IsAborted()) return status;
  // The share in the engine goes, too; the destructor deletes null.
  db_ = nullptr;
  shared_db_ptr_.reset();
  return status;
}

Status Rocks::Resume() {
  BRECCIA_TRY(core_->check_open());
  return base::or_memory_limit([&] {
    std::string cause;
    if (core_->engine().GetProperty("breccia.read-only", &cause) && !cause.empty()) {
      return Status::IOError("the database is read-only until it is opened again", cause);
    }
    return core_->tree().Resume();
  });
}

Status Rocks::LoadLatestOptions(const rocksdb::ConfigOptions& config, const std::string& name,
                                rocksdb::DBOptions* options, std::vector<Descriptor>* families) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(rocksdb::LoadLatestOptions(config, name, options, families));
    facade::restore_given(families);
    return Status::OK();
  });
}

Status Rocks::DestroyDB(const std::string& name, const rocksdb::Options& options,
                        const std::vector<Descriptor>& column_families) {
  return base::or_memory_limit([&] {
    return DestroyDB(name, facade::engine_options(options, name, default_family(options)),
                     column_families);
  });
}

Status Rocks::DestroyDB(const std::string& name, const Options& options,
                        const std::vector<Descriptor>& column_families) {
  return base::or_memory_limit([&] {
    // First, as it finds out whether somebody has the database open.
    BRECCIA_TRY(rocksdb::DestroyDB(name, options.rocksdb, column_families));
    remove_beside_tree(options, name);
    std::error_code ignored;
    std::filesystem::remove(name, ignored);  // fails if the user keeps anything there
    return Status::OK();
  });
}

Status Rocks::Detach(const Options& options, const std::string& name,
                     const std::vector<Descriptor>& column_families) {
  return base::or_memory_limit([&] {
    Options opening = options;
    opening.create_if_missing = false;
    opening.error_if_exists = false;
    opening.flush_at_close = true;
    facade::set_families(column_families, &opening);
    std::vector<std::string> families;
    BRECCIA_TRY(ListColumnFamilies(options.rocksdb, name, &families));
    if (facade::is_store(options.rocksdb, name)) {
      std::unique_ptr<facade::Core> core;
      BRECCIA_TRY(open_core(opening, name, column_families, &core));
      BRECCIA_TRY(check_nothing_prepared(*core));
      BRECCIA_TRY(core->close());
      BRECCIA_TRY(tree::drop_own_families(opening, name));
    }
    // Every store has the mark, so a `log` beside none is somebody else's.
    if (std::filesystem::exists(name + "/" + tree::kStoreMark)) remove_beside_tree(opening, name);
    return Status::OK();
  });
}

}  // namespace breccia
