#include "tree/tree.h"

#include <fmt/format.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/bytes.h"
#include "base/memory.h"
#include "tree/audience.h"
#include "tree/copies.h"
#include "tree/install_gate.h"
#include "tree/level0_triggers.h"
#include "tree/whole_page_env.h"
#include "wal/log_open.h"

/// The RocksDB below. Opening: the user's families and a hidden one, whose single key is the
/// watermark: the log position up to which everything is in files. Flushes come as files that are
/// ingested together with a file that holds the next watermark, so that all of it counts or none.

namespace breccia::tree {

namespace {

constexpr char kFailedIngest[] = "ingest-failed";
/// No limit: a file that is written takes a few MiB, and eight bytes a key.
constexpr std::uint64_t kWorkBytesMax = ~std::uint64_t{0} / 2;

/// What a family needs beside the user's options.
rocksdb::ColumnFamilyOptions tree_family(const rocksdb::ColumnFamilyOptions& family,
                                         int flush_parts) {
  rocksdb::ColumnFamilyOptions scaled = scaled_triggers(family, flush_parts);
  without_memtables(&scaled);
  return scaled;
}

/// The tree's options: the user's, with what ingesting needs.
rocksdb::Options tree_options(const Options& options, int flush_parts) {
  rocksdb::Options tree(static_cast<const rocksdb::DBOptions&>(options.rocksdb),
                        tree_family(options.rocksdb, flush_parts));
  tree.create_if_missing = options.create_if_missing;
  tree.error_if_exists = options.error_if_exists;
  tree.create_missing_column_families = true;
  // What a log of RocksDB's own holds must lie in files before anything is ingested.
  tree.avoid_flush_during_recovery = false;
  // Tables that become resident are mapped; none does with a file manager.
  const bool are_mapped = options.residency_bytes > 0 && tree.sst_file_manager == nullptr;
  if (are_mapped) tree.env = whole_page_env(tree.env);
  without_memtables(static_cast<rocksdb::DBOptions*>(&tree));
  return tree;
}

/// The families to open: what the database has, what the user names, and the hidden one.
std::vector<rocksdb::ColumnFamilyDescriptor> wanted_families(const Options& options,
                                                             const rocksdb::Options& tree,
                                                             const std::string& path,
                                                             int flush_parts) {
  std::map<std::string, rocksdb::ColumnFamilyOptions> wanted;
  std::vector<std::string> names;
  // A database that is not there yet has no list; opening it says what is wrong, if anything.
  rocksdb::DB::ListColumnFamilies(tree, path, &names).PermitUncheckedError();
  names.push_back(rocksdb::kDefaultColumnFamilyName);
  for (const std::string& name : names) wanted[name] = tree;
  if (wanted.contains(kPreparedFamily)) {
    wanted[kPreparedFamily] = tree_family(rocksdb::ColumnFamilyOptions(), flush_parts);
  }
  for (const auto& [name, family] : options.families)
    wanted[name] = tree_family(family, flush_parts);
  wanted[kHiddenFamily] = tree_family(rocksdb::ColumnFamilyOptions(), flush_parts);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const auto& [name, family] : wanted) descriptors.emplace_back(name, family);
  return descriptors;
}

/// Adds a file behind its family's others.
void add_to_ingest(const FamilyFile& file, std::vector<rocksdb::IngestExternalFileArg>* args) {
  auto arg = std::find_if(args->begin(), args->end(),
                          [&](const auto& one) { return one.column_family == file.family; });
  if (arg == args->end()) {
    arg = args->emplace(args->end());
    arg->column_family = file.family;
    arg->options.move_files = true;
    arg->options.failed_move_fall_back_to_copy = false;
    arg->options.snapshot_consistency = true;
    arg->options.allow_global_seqno = true;
    arg->options.allow_blocking_flush = false;
    arg->options.write_global_seqno = false;
  }
  arg->external_files.push_back(file.path);
}

}  // namespace

struct Tree::Ownership {
  const std::shared_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* handle = nullptr;

  explicit Ownership(std::shared_ptr<rocksdb::DB> of) : db(std::move(of)) {}
  ~Ownership() {
    if (handle != nullptr) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;
};

Tree::Tree() : gate_(std::make_shared<InstallGate>()), work_(kWorkBytesMax) {}

Result<std::unique_ptr<Tree>> Tree::open(const Options& options, const std::string& path,
                                         int flush_parts) {
  std::unique_ptr<Tree> below(new Tree);
  below->path_ = path;
  below->flush_parts_ = flush_parts;
  rocksdb::Env* const env = options.rocksdb.env;
  BRECCIA_TRY(check_restored(env, path));
  BRECCIA_TAKE(const std::uint64_t mark, read_mark(env, path));
  // Before RocksDB opens anything: its own wal_dir may be the original's, too.
  if (mark == 0) BRECCIA_TRY(check_no_log(options, path));
  const LogNote note = read_log_note(env, path);
  const std::string manifest = manifest_of(env, path);  // opening begins another
  BRECCIA_TRY(below->open_families(options, path));
  below->disk_ = base::Precedence::of_disk(path);
  BRECCIA_TRY(below->clear_staging());
  BRECCIA_TAKE(below->watermark_, read_watermark(below->db(), below->hidden_.get()));
  if (below->store_id() == 0 || below->store_id() != mark) {
    if (mark != 0) BRECCIA_TRY(check_no_log(options, path));
    BRECCIA_TRY(below->begin_store());
  }
  below->take_note(note, manifest);
  return below;
}

void Tree::take_note(const LogNote& note, const std::string& manifest) {
  if (note.store_id != store_id() || note.applied != applied()) return;
  if (note.manifest == manifest) log_parts_ = note.parts;
}

// The mark before the watermark: a crash in between leaves what is no store, or still a copy.
Status Tree::begin_store() {
  watermark_ = {0, wal::draw_store_id()};
  BRECCIA_TRY(write_mark(db_->GetEnv(), path_, watermark_.store_id));
  return ingest(
      {}, 0, [] {}, [] {});
}

Status Tree::open_families(const Options& options, const std::string& path) {
  options_ = tree_options(options, flush_parts_);
  options_.listeners = InstallGate::around(gate_, options_.listeners);
  options_.compaction_service = InstallGate::around(gate_, options_.compaction_service);
  const auto wanted = wanted_families(options, options_, path, flush_parts_);
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  Status status = rocksdb::DB::Open(options_, path, wanted, &handles, &db);
  if (status.IsCorruption() && options_.env->FileExists(staging_path(kFailedIngest)).ok()) {
    // A manifest may hold an ingest that failed in its last sync, and RocksDB has removed its
    // files. The version before it is whole, and the log holds the rest.
    rocksdb::DBOptions before_ingest(options_);
    before_ingest.best_efforts_recovery = true;
    status = rocksdb::DB::Open(before_ingest, path, wanted, &handles, &db);
  }
  BRECCIA_TRY(status);
  std::unique_ptr<rocksdb::DB> opened(db);
  std::size_t owned = 0;
  const Status kept = base::or_memory_limit([&] {
    db_ = std::move(opened);  // or it stays where it is
    families_.reserve(handles.size());
    while (owned < handles.size()) {
      auto ownership = std::make_shared<Ownership>(db_);
      rocksdb::ColumnFamilyHandle* const handle = handles[owned++];
      TreeFamily family = own(handle, std::move(ownership));
      if (handle->GetName() == kHiddenFamily) {
        hidden_ = std::move(family);
      } else {
        families_.push_back(std::move(family));
      }
    }
    return Status::OK();
  });
  // The database must not go before its handles.
  for (; owned < handles.size(); ++owned) {
    db->DestroyColumnFamilyHandle(handles[owned]).PermitUncheckedError();
  }
  BRECCIA_TRY(kept);
  BRECCIA_ASSERT(hidden_ != nullptr && families_.size() + 1 == wanted.size());
  return Status::OK();
}

// The owners hold the database: whoever reads may outlive every other reference to it.
TreeFamily Tree::own(rocksdb::ColumnFamilyHandle* handle, std::shared_ptr<Ownership> ownership) {
  ownership->handle = handle;
  return {std::move(ownership), handle};
}

TreeSnapshot Tree::snapshot() const {
  return {db_->GetSnapshot(), [db = db_](const rocksdb::Snapshot* at) { db->ReleaseSnapshot(at); }};
}

// ---- what of the log says what the tree says ---------------------------------------------------

void Tree::note_log(const std::function<std::vector<LogPart>()>& parts) {
  const std::lock_guard lock(note_mutex_);
  if (changes_past_log_ > 0) return;
  rocksdb::Env* const env = db_->GetEnv();
  const LogNote note{store_id(), applied(), manifest_of(env, path_), parts()};
  write_log_note(env, path_, note).PermitUncheckedError();
}

Result<Tree::ChangePastLog> Tree::begin_change_past_log() {
  const std::lock_guard lock(note_mutex_);
  BRECCIA_TRY(base::with_patience([&] { return remove_log_note(db_->GetEnv(), path_); }));
  ++changes_past_log_;
  return ChangePastLog(this);
}

void Tree::end_change_past_log() {
  const std::lock_guard lock(note_mutex_);
  BRECCIA_ASSERT(changes_past_log_ > 0);
  --changes_past_log_;
}

// ---- families ----------------------------------------------------------------------------------

std::vector<TreeFamily> Tree::families() const {
  const std::lock_guard lock(mutex_);
  return families_;
}

Result<TreeFamily> Tree::create_family(const std::string& name,
                                       const rocksdb::ColumnFamilyOptions& options) {
  auto ownership = make_room_for_family();
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  const Status made = db_->CreateColumnFamily(tree_family(options, flush_parts_), name, &handle);
  return add_family(made, handle, std::move(ownership));
}

Result<TreeFamily> Tree::import_family(const std::string& name,
                                       const rocksdb::ColumnFamilyOptions& options,
                                       const rocksdb::ImportColumnFamilyOptions& how,
                                       const rocksdb::ExportImportFilesMetaData& files) {
  auto ownership = make_room_for_family();
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  const Status made = db_->CreateColumnFamilyWithImport(tree_family(options, flush_parts_), name,
                                                        how, files, &handle);
  return add_family(made, handle, std::move(ownership));
}

/// Before there is one: what RocksDB has, the list must have.
std::shared_ptr<Tree::Ownership> Tree::make_room_for_family() {
  auto ownership = std::make_shared<Ownership>(db_);
  const std::lock_guard lock(mutex_);
  families_.reserve(families_.size() + families_coming_ + 1);
  ++families_coming_;
  return ownership;
}

Result<TreeFamily> Tree::add_family(const Status& made, rocksdb::ColumnFamilyHandle* handle,
                                    std::shared_ptr<Ownership> ownership) {
  BRECCIA_ASSERT(!made.ok() || handle != nullptr);
  if (!made.ok() && handle != nullptr) {
    // Only the OPTIONS file could not be written (fail_if_options_file_error). An error says that
    // there is no such family, so it goes again.
    db_->DropColumnFamily(handle).PermitUncheckedError();
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(families_coming_ > 0 && families_.size() < families_.capacity());
  --families_coming_;
  BRECCIA_TRY(made);
  families_.push_back(own(handle, std::move(ownership)));
  return families_.back();
}

Status Tree::drop_family(rocksdb::ColumnFamilyHandle* family,
                         const std::function<void()>& publish) {
  const std::lock_guard change(change_mutex_);
  Status status = db_->DropColumnFamily(family);
  if (!status.ok() && !status.IsInvalidArgument()) {
    // The family is gone, too, where only the OPTIONS file could not be written
    // (fail_if_options_file_error). Asked again, RocksDB says so.
    const Status again = db_->DropColumnFamily(family);
    if (again.ok() || again.IsInvalidArgument()) status = Status::OK();
  }
  BRECCIA_TRY(status);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(families_, [&](const TreeFamily& one) { return one.get() == family; });
  }
  publish();
  return Status::OK();
}

bool Tree::has_family(rocksdb::ColumnFamilyHandle* family) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(families_.begin(), families_.end(),
                     [&](const TreeFamily& one) { return one.get() == family; });
}

bool Tree::has_data(rocksdb::ColumnFamilyHandle* family) const {
  rocksdb::ColumnFamilyMetaData files;
  db_->GetColumnFamilyMetaData(family, &files);
  std::uint64_t in_memtable = 0;
  (void)db_->GetIntProperty(family, "rocksdb.num-entries-active-mem-table", &in_memtable);
  return files.file_count > 0 || in_memtable > 0;
}

bool Tree::overloaded() const {
  std::uint64_t stopped = 0;
  (void)db_->GetIntProperty("rocksdb.is-write-stopped", &stopped);
  if (stopped != 0) return true;
  for (const TreeFamily& family : families()) {
    std::string files;
    if (!db_->GetProperty(family.get(), "rocksdb.num-files-at-level0", &files)) continue;
    const rocksdb::Options options = db_->GetOptions(family.get());
    // Without automatic compactions nobody takes the files away, and RocksDB does not wait for it.
    if (options.disable_auto_compactions) continue;
    if (std::stoll(files) >= options.level0_stop_writes_trigger) return true;
  }
  return false;
}

// ---- files -------------------------------------------------------------------------------------

std::string Tree::staging_path(const std::string& name) const {
  return path_ + "/" + kStagingFolder + "/" + name;
}

std::string Tree::data_path(const std::string& family, int number) const {
  return staging_path((is_reserved(family) ? kOwnStaged : "data-") + std::to_string(ingests_) +
                      "-" + std::to_string(number) + ".sst");
}

rocksdb::Options Tree::file_options(rocksdb::ColumnFamilyHandle* family) const {
  rocksdb::ColumnFamilyDescriptor descriptor;
  family->GetDescriptor(&descriptor).PermitUncheckedError();  // fails only for dropped families
  return {static_cast<const rocksdb::DBOptions&>(options_), descriptor.options};
}

// Files of a flush that did not finish. The log still holds what is in them.
Status Tree::clear_staging() {
  rocksdb::Env* const env = db_->GetEnv();
  const std::string folder = path_ + "/" + kStagingFolder;
  BRECCIA_TRY(env->CreateDirIfMissing(folder));
  std::vector<std::string> leftovers;
  BRECCIA_TRY(env->GetChildren(folder, &leftovers));
  for (const std::string& name : leftovers) {
    if (name != "." && name != "..") BRECCIA_TRY(env->DeleteFile(folder + "/" + name));
  }
  return Status::OK();
}

Status Tree::write_watermark_file(const Watermark& watermark, std::string* path) const {
  *path = staging_path(kOwnStaged + std::string("watermark-") + std::to_string(ingests_) + ".sst");
  // The family's own options are RocksDB's defaults; Env and file checksums are the database's.
  const rocksdb::Options options(options_, rocksdb::ColumnFamilyOptions());
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options_), options, hidden_.get(),
                                /*invalidate_page_cache=*/false);
  BRECCIA_TRY(writer.Open(*path));
  const Slice value(reinterpret_cast<const char*>(&watermark), sizeof watermark);
  BRECCIA_TRY(writer.Put(kWatermarkKey, value));
  return writer.Finish();
}

Status Tree::write_file(rocksdb::ColumnFamilyHandle* family, int number, const NextEntry& next,
                        std::string* path) const {
  FileEntry entry;
  path->clear();
  if (!next(&entry)) return Status::OK();
  *path = data_path(family->GetName(), number);
  BRECCIA_TAKE(const auto file, stage_file(*path, file_options(family), family, work_));
  do {
    BRECCIA_TRY(file->add(entry));
  } while (next(&entry));
  return file->finish();
}

Status Tree::write_range_deletions(rocksdb::ColumnFamilyHandle* family, int number,
                                   const std::vector<std::pair<Slice, Slice>>& ranges,
                                   std::string* path) const {
  BRECCIA_ASSERT(!ranges.empty());
  *path = data_path(family->GetName(), number);
  BRECCIA_TAKE(const auto file, stage_file(*path, file_options(family), family, work_));
  for (const auto& [begin, end] : ranges) BRECCIA_TRY(file->delete_range(begin, end));
  return file->finish();
}

Status Tree::ingest(const std::vector<FamilyFile>& files, std::uint64_t applied,
                    const std::function<void()>& prepare, const std::function<void()>& publish) {
  const InstallGate::Flush flush(gate_.get());
  const std::lock_guard change(change_mutex_);
  BRECCIA_ASSERT(applied >= watermark_.applied);
  const Watermark watermark{applied, watermark_.store_id};
  // The watermark first: where a failed ingest takes its files back, it must not be the last.
  FamilyFile watermark_file{hidden_.get(), {}};
  BRECCIA_TRY(write_watermark_file(watermark, &watermark_file.path));
  std::vector<rocksdb::IngestExternalFileArg> args;
  add_to_ingest(watermark_file, &args);
  for (const FamilyFile& file : files) {
    if (has_family(file.family)) add_to_ingest(file, &args);  // else dropped meanwhile
  }
  prepare();
  Status status = ingest_files(args);
  if (!status.ok()) {
    // For open_families; without the note the next open may have to report the tree as damaged.
    base::as_memory_allows([&] {
      rocksdb::WriteStringToFile(db_->GetEnv(), status.ToString(), staging_path(kFailedIngest),
                                 /*should_sync=*/true)
          .PermitUncheckedError();
    });
    return status;
  }
  watermark_ = watermark;
  ++ingests_;
  publish();
  return Status::OK();
}

// RocksDB tells of files while it holds its mutex here, and a flush waits for this thread. They are
// posted before any compaction can end that takes one of them away.
Status Tree::ingest_files(const std::vector<rocksdb::IngestExternalFileArg>& files) {
  const InstallGate::Ingest alone(gate_.get(), [this] { return is_idle(); });
  const KeptEvents events(KeptEvents::Then::kPost);
  const base::Precedence::First first(disk_);  // it syncs them
  const Status status = base::or_memory_limit([&] { return db_->IngestExternalFiles(files); });
  if (!status.IsMemoryLimit()) return base::copy_of(status);
  // An exception in the middle of RocksDB is no error that can be tried again.
  return base::io_error("RocksDB found no memory in an ingest; open the store again");
}

bool Tree::is_idle() const {
  std::uint64_t compactions = 0;
  (void)db_->GetIntProperty("rocksdb.num-running-compactions", &compactions);
  return compactions == 0;
}

}  // namespace breccia::tree
