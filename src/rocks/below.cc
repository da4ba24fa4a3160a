#include "rocks/below.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "wal/log.h"

namespace breccia::rocks {

namespace {

constexpr char kHiddenFamily[] = "breccia.watermark";
constexpr char kWatermarkKey[] = "applied";
constexpr char kStagingFolder[] = "breccia-staging";
constexpr char kFailedIngest[] = "ingest-failed";

/// The tree's options: the user's, with what ingesting needs.
rocksdb::Options tree_options(const Options& options, int partitions) {
  rocksdb::Options tree = options.rocksdb;
  tree.create_if_missing = options.create_if_missing;
  tree.error_if_exists = options.error_if_exists;
  tree.create_missing_column_families = true;
  // A flush adds one file per key range; RocksDB counts files.
  for (int* trigger : {&tree.level0_file_num_compaction_trigger,
                       &tree.level0_slowdown_writes_trigger, &tree.level0_stop_writes_trigger}) {
    const std::int64_t scaled = std::int64_t{*trigger} * partitions;
    *trigger = static_cast<int>(std::min<std::int64_t>(scaled, 1 << 30));
  }
  return tree;
}

}  // namespace

Result<std::unique_ptr<Below>> Below::open(const Options& options, const std::string& path,
                                           int partitions) {
  std::unique_ptr<Below> below(new Below);
  BRECCIA_TRY(below->open_families(options, path, partitions));
  BRECCIA_TRY(below->clear_staging());
  BRECCIA_TRY(below->read_watermark());
  if (below->store_id() == 0) {
    below->watermark_.store_id = wal::draw_store_id();
    BRECCIA_TRY(below->ingest({}, 0));
  }
  return below;
}

Below::~Below() {
  if (db_ == nullptr) return;
  for (auto* family : families_) (void)db_->DestroyColumnFamilyHandle(family);
}

Status Below::open_families(const Options& options, const std::string& path, int partitions) {
  path_ = path;
  options_ = tree_options(options, partitions);
  stop_files_ = options_.level0_stop_writes_trigger;
  std::vector<std::string> names;
  // A database that is not there yet has no list; opening it below says what is wrong, if anything.
  (void)rocksdb::DB::ListColumnFamilies(options_, path, &names);
  for (const char* own : {rocksdb::kDefaultColumnFamilyName.c_str(), kHiddenFamily}) {
    if (std::find(names.begin(), names.end(), own) == names.end()) names.emplace_back(own);
  }
  std::vector<rocksdb::ColumnFamilyDescriptor> wanted;
  for (const std::string& name : names) {
    wanted.emplace_back(name, name == kHiddenFamily
                                  ? rocksdb::ColumnFamilyOptions()
                                  : static_cast<const rocksdb::ColumnFamilyOptions&>(options_));
  }
  rocksdb::DB* db = nullptr;
  Status status = rocksdb::DB::Open(options_, path, wanted, &families_, &db);
  if (status.IsCorruption() && options_.env->FileExists(staging_path(kFailedIngest)).ok()) {
    // A manifest may hold an ingest that failed in its last sync, and RocksDB has removed its
    // files. The version before it is whole, and the log holds the rest.
    rocksdb::DBOptions before_ingest(options_);
    before_ingest.best_efforts_recovery = true;
    status = rocksdb::DB::Open(before_ingest, path, wanted, &families_, &db);
  }
  BRECCIA_TRY(status);
  db_.reset(db);
  for (auto* family : families_) {
    if (family->GetName() == kHiddenFamily) hidden_ = family;
    if (family->GetName() == rocksdb::kDefaultColumnFamilyName) data_ = family;
  }
  BRECCIA_ASSERT(data_ != nullptr && hidden_ != nullptr);
  rocksdb::ColumnFamilyMetaData files;
  db_->GetColumnFamilyMetaData(data_, &files);
  std::uint64_t in_memtable = 0;
  (void)db_->GetIntProperty(data_, "rocksdb.num-entries-active-mem-table", &in_memtable);
  has_data_.store(files.file_count > 0 || in_memtable > 0, std::memory_order_release);
  return Status::OK();
}

std::string Below::staging_path(const std::string& name) const {
  return path_ + "/" + kStagingFolder + "/" + name;
}

// Files of a flush that did not finish. The log still holds what is in them.
Status Below::clear_staging() {
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

Status Below::read_watermark() {
  std::string value;
  const Status status = db_->Get(rocksdb::ReadOptions(), hidden_, kWatermarkKey, &value);
  if (status.IsNotFound()) return Status::OK();
  BRECCIA_TRY(status);
  if (value.size() != sizeof watermark_) {
    return Status::Corruption("watermark has " + std::to_string(value.size()) + " bytes, not 16");
  }
  std::memcpy(&watermark_, value.data(), sizeof watermark_);
  return Status::OK();
}

Status Below::write_watermark_file(const Watermark& watermark, std::string* path) const {
  *path = staging_path("watermark-" + std::to_string(ingests_) + ".sst");
  // The family's own options are RocksDB's defaults; Env and file checksums are the database's.
  const rocksdb::Options options(options_, rocksdb::ColumnFamilyOptions());
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options_), options, hidden_,
                                /*invalidate_page_cache=*/false);
  BRECCIA_TRY(writer.Open(*path));
  const Slice value(reinterpret_cast<const char*>(&watermark), sizeof watermark);
  BRECCIA_TRY(writer.Put(kWatermarkKey, value));
  return writer.Finish();
}

BelowSnapshot Below::snapshot() const {
  // The deleter holds the database, so a reader may outlive every other reference to it.
  return {db_->GetSnapshot(), [db = db_](const rocksdb::Snapshot* at) { db->ReleaseSnapshot(at); }};
}

Status Below::get(const rocksdb::Snapshot* at, const Slice& key,
                  rocksdb::PinnableSlice* value) const {
  rocksdb::ReadOptions options;
  options.snapshot = at;
  return db_->Get(options, data_, key, value);
}

void Below::multi_get(const rocksdb::Snapshot* at, std::size_t count, const Slice* keys,
                      rocksdb::PinnableSlice* values, Status* statuses) const {
  rocksdb::ReadOptions options;
  options.snapshot = at;
  db_->MultiGet(options, data_, count, keys, values, statuses, /*sorted_input=*/false);
}

Status Below::ingest(const std::vector<std::string>& files, std::uint64_t applied) {
  BRECCIA_ASSERT(applied >= watermark_.applied);
  const Watermark next{applied, watermark_.store_id};
  std::string watermark;
  BRECCIA_TRY(write_watermark_file(next, &watermark));
  rocksdb::IngestExternalFileOptions how;
  how.move_files = true;
  how.failed_move_fall_back_to_copy = false;
  how.snapshot_consistency = true;
  how.allow_global_seqno = true;
  how.allow_blocking_flush = false;
  how.write_global_seqno = false;
  // The watermark first: where a failed ingest takes its files back, it must not be the last.
  std::vector<rocksdb::IngestExternalFileArg> args(1);
  args.back().column_family = hidden_;
  args.back().external_files = {watermark};
  args.back().options = how;
  if (!files.empty()) {
    has_data_.store(true, std::memory_order_release);  // before anybody can miss it
    args.emplace_back();
    args.back().column_family = data_;
    args.back().external_files = files;
    args.back().options = how;
  }
  const Status status = db_->IngestExternalFiles(args);
  if (!status.ok()) {
    // For open_families; without the note the next open may have to report the tree as damaged.
    (void)rocksdb::WriteStringToFile(db_->GetEnv(), status.ToString(), staging_path(kFailedIngest),
                                     /*should_sync=*/true);
    return status;
  }
  watermark_ = next;
  ++ingests_;
  return Status::OK();
}

bool Below::overloaded() const {
  std::uint64_t files = 0;
  std::uint64_t stopped = 0;
  std::string text;
  if (db_->GetProperty(data_, "rocksdb.num-files-at-level0", &text)) files = std::stoull(text);
  (void)db_->GetIntProperty(data_, "rocksdb.is-write-stopped", &stopped);
  return stopped != 0 || files >= static_cast<std::uint64_t>(stop_files_);
}

}  // namespace breccia::rocks
