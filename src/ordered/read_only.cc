#include "ordered/read_only.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "ordered/read/iterator.h"
#include "ordered/recover.h"
#include "tree/copies.h"

namespace breccia::ordered {

namespace {

/// RocksDB begins a file of messages in the database's folder unless it is given a logger.
class NoMessages final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

Status in_use(const std::string& path) {
  return Status::IOError(path + ": another process has this database open",
                         "Close it there, or copy the database and look at the copy.");
}

/// The families to open: all that there are, without writing one that is missing.
std::vector<rocksdb::ColumnFamilyDescriptor> descriptors_of(const Options& options,
                                                            const std::vector<std::string>& names) {
  std::map<std::string, rocksdb::ColumnFamilyOptions> known(options.families.begin(),
                                                            options.families.end());
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const std::string& name : names) {
    rocksdb::ColumnFamilyOptions family = options.rocksdb;
    if (const auto at = known.find(name); at != known.end()) family = at->second;
    if (name == tree::kHiddenFamily) family = rocksdb::ColumnFamilyOptions();
    descriptors.emplace_back(name, family);
  }
  return descriptors;
}

}  // namespace

Result<std::unique_ptr<ReadOnlyStore>> ReadOnlyStore::open(const Options& options,
                                                           const std::string& path) {
  BRECCIA_TAKE(auto store, open_damaged(options, path));
  BRECCIA_TRY(store->log_status_);
  return store;
}

Result<std::unique_ptr<ReadOnlyStore>> ReadOnlyStore::open_damaged(const Options& options,
                                                                   const std::string& path) {
  if (!std::filesystem::exists(path + "/CURRENT")) {
    return Status::InvalidArgument(path + ": there is no database", "check --db");
  }
  std::unique_ptr<ReadOnlyStore> store(new ReadOnlyStore);
  store->log_dir_ = tree::log_folder(options, path);
  BRECCIA_TAKE(const std::uint64_t mark, tree::read_mark(rocksdb::Env::Default(), path));
  // The log's lock first: a store of this process holds it, too, and closing the tree's lock file
  // would let go of that store's lock. What owns no log has no business with it.
  if (mark != 0) {
    BRECCIA_TAKE(store->log_.lock, wal::read_only_files()->lock(store->log_dir_));
  }
  BRECCIA_TRY(store->lock_tree(path));
  BRECCIA_TRY(tree::check_restored(rocksdb::Env::Default(), path));
  BRECCIA_TRY(store->open_tree(options, path));
  store->is_copy_ = store->is_store() && store->watermark_.store_id != mark;
  store->log_status_ = store->read_log();
  BRECCIA_TRY(store->make_view());
  return store;
}

ReadOnlyStore::~ReadOnlyStore() {
  pin_ = {};
  for (rocksdb::ColumnFamilyHandle* family : families_) {
    tree_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
  if (hidden_ != nullptr) tree_->DestroyColumnFamilyHandle(hidden_).PermitUncheckedError();
}

/// Shares the lock that RocksDB takes for itself alone. A read lock needs no write permission.
Status ReadOnlyStore::lock_tree(const std::string& path) {
  const std::string name = path + "/LOCK";
  const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return Status::OK();  // a copy: nobody ever opened it
  if (fd < 0) return Status::IOError("open " + name, std::strerror(errno));
  tree_lock_ = std::shared_ptr<void>(nullptr, [fd](void*) { ::close(fd); });
  struct flock whole {};
  whole.l_type = F_RDLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd, F_SETLK, &whole) == 0) return Status::OK();
  if (errno == EAGAIN || errno == EACCES) return in_use(path);
  return Status::IOError("lock " + name, std::strerror(errno));
}

Status ReadOnlyStore::open_tree(const Options& options, const std::string& path) {
  rocksdb::DBOptions tree = options.rocksdb;
  tree.info_log = std::make_shared<NoMessages>();
  tree.listeners.clear();
  std::vector<std::string> names;
  BRECCIA_TRY(rocksdb::DB::ListColumnFamilies(tree, path, &names));
  // A store's tree keeps nothing in a log of RocksDB's, and where that would lie, a copy's original
  // may keep its.
  const bool has_hidden = std::find(names.begin(), names.end(), tree::kHiddenFamily) != names.end();
  if (has_hidden || !std::filesystem::exists(tree.wal_dir)) tree.wal_dir.clear();
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  BRECCIA_TRY(
      rocksdb::DB::OpenForReadOnly(tree, path, descriptors_of(options, names), &handles, &db));
  tree_.reset(db);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    if (handle->GetName() == tree::kHiddenFamily) {
      hidden_ = handle;
    } else {
      families_.push_back(handle);
    }
  }
  if (hidden_ == nullptr) return Status::OK();
  BRECCIA_TAKE(watermark_, tree::read_watermark(db, hidden_));
  return Status::OK();
}

Status ReadOnlyStore::read_log() {
  // A copy was complete when it was made; the log that its watermark speaks of is its original's.
  if (!owns_log()) return Status::OK();
  wal::LogOptions options;
  options.dir = log_dir_;
  options.files = wal::read_only_files();
  options.store_id = watermark_.store_id;
  BRECCIA_TAKE(wal::ReadLog log, wal::read_log(options, watermark_.applied));
  log_ = std::move(log);
  return Status::OK();
}

Status ReadOnlyStore::make_view() {
  host_ = runs::make_host_backend();
  BRECCIA_TAKE(RecoveredFamilies recovered,
               recover_families(log_.frames, watermark_.applied, *host_));
  auto view = std::make_shared<View>();
  view->below.db = tree_.get();
  std::vector<wal::SegmentPtr> needed;
  for (const wal::SegmentPtr& segment : log_.segments) {
    if (segment->end() > watermark_.applied) needed.push_back(segment);
  }
  view->table = std::make_shared<const wal::SegmentTable>(std::move(needed));
  for (rocksdb::ColumnFamilyHandle* handle : families_) {
    auto family = std::make_shared<FamilyView>();
    family->id = handle->GetID();
    family->active = std::make_shared<memtable::HostMemtable>();
    family->tree = std::shared_ptr<rocksdb::ColumnFamilyHandle>(handle, [](auto*) {});
    family->tree_has_data = true;
    family->merge_operator = tree_->GetOptions(handle).merge_operator;
    RecoveredFamily& own = recovered[family->id];
    family->set_runs(std::move(own.runs));
    family->tombstones = memtable::Tombstones::with(nullptr, std::move(own.tombstones));
    view->set_family(std::move(family));
  }
  pin_ = {std::move(view), log_.recovery.end};
  return Status::OK();
}

std::unique_ptr<rocksdb::Iterator> ReadOnlyStore::iterate(
    const rocksdb::ReadOptions& options, rocksdb::ColumnFamilyHandle* family) const {
  return make_iterator(options, pin_, *pin_.view->family(family->GetID()), {});
}

}  // namespace breccia::ordered
