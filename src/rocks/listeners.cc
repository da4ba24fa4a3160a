#include "rocks/listeners.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <charconv>

#include "base/parallel.h"
#include "rocks/below.h"
#include "wal/format.h"

namespace breccia::rocks {

namespace {

bool is_staged(const std::string& path) {
  return path.find(std::string("/") + kStagingFolder + "/") != std::string::npos;
}

/// The number in `.../000012.sst`.
std::uint64_t file_number(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  std::uint64_t number = 0;
  (void)std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

/// Deletions among a run's entries. Of a device's run they are found in the log, in any order.
std::uint64_t deletions_in(const memtable::MemRun& run, const wal::SegmentTable& table) {
  constexpr std::uint64_t kEntriesPerPart = 64 << 10;
  const std::uint64_t n = run.run->count();
  std::atomic<std::uint64_t> deletions{0};
  base::parallel_for(std::uint64_t{0}, (n + kEntriesPerPart - 1) / kEntriesPerPart,
                     [&](std::uint64_t part) {
                       const std::uint64_t end = std::min(n, (part + 1) * kEntriesPerPart);
                       std::uint64_t own = 0;
                       for (std::uint64_t i = part * kEntriesPerPart; i < end; ++i) {
                         own += wal::is_deletion(wal::op_of(run.payload_at(i, table))) ? 1 : 0;
                       }
                       deletions += own;
                     });
  return deletions;
}

}  // namespace

/// The tree's listener.
class Listeners::Relay final : public rocksdb::EventListener {
 public:
  explicit Relay(Listeners* owner) : owner_(owner), users_(owner->users_), shown_(owner->shown_) {}

  /// From now on nothing is noted of files that are flushed.
  void leave() { owner_ = nullptr; }

  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    tell([&](auto& user) { user.OnFlushCompleted(shown(db), info); });
  }
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    tell([&](auto& user) { user.OnFlushBegin(shown(db), info); });
  }
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override {
    tell([&](auto& user) { user.OnTableFileDeleted(info); });
  }
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    tell([&](auto& user) { user.OnCompactionBegin(shown(db), info); });
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    tell([&](auto& user) { user.OnCompactionCompleted(shown(db), info); });
  }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override {
    tell([&](auto& user) { user.OnSubcompactionBegin(info); });
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& info) override {
    tell([&](auto& user) { user.OnSubcompactionCompleted(info); });
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    tell([&](auto& user) { user.OnTableFileCreated(info); });
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    tell([&](auto& user) { user.OnTableFileCreationStarted(info); });
  }
  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override {
    tell([&](auto& user) { user.OnMemTableSealed(info); });
  }
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override {
    tell([&](auto& user) { user.OnColumnFamilyHandleDeletionStarted(handle); });
  }
  void OnExternalFileIngested(rocksdb::DB* db,
                              const rocksdb::ExternalFileIngestionInfo& info) override {
    if (is_staged(info.external_file_path)) {
      Listeners* const owner = owner_.load();
      if (owner != nullptr) owner->add_file(info);
      return;
    }
    tell([&](auto& user) { user.OnExternalFileIngested(shown(db), info); });
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, Status* error) override {
    tell([&](auto& user) { user.OnBackgroundError(reason, error); });
  }
  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    tell([&](auto& user) { user.OnStallConditionsChanged(info); });
  }
  void OnFileReadFinish(const rocksdb::FileOperationInfo& info) override {
    tell_of_files([&](auto& user) { user.OnFileReadFinish(info); });
  }
  void OnFileWriteFinish(const rocksdb::FileOperationInfo& info) override {
    tell_of_files([&](auto& user) { user.OnFileWriteFinish(info); });
  }
  void OnFileFlushFinish(const rocksdb::FileOperationInfo& info) override {
    tell_of_files([&](auto& user) { user.OnFileFlushFinish(info); });
  }
  void OnFileSyncFinish(const rocksdb::FileOperationInfo& info) override {
    tell_of_files([&](auto& user) { user.OnFileSyncFinish(info); });
  }
  void OnFileRangeSyncFinish(const rocksdb::FileOperationInfo& info) override {
    tell_of_files([&](auto& user) { user.OnFileRangeSyncFinish(info); });
  }
  void OnFileTruncateFinish(const rocksdb::FileOperationInfo& info) override {
    tell_of_files([&](auto& user) { user.OnFileTruncateFinish(info); });
  }
  void OnFileCloseFinish(const rocksdb::FileOperationInfo& info) override {
    tell_of_files([&](auto& user) { user.OnFileCloseFinish(info); });
  }
  bool ShouldBeNotifiedOnFileIO() override {
    return std::any_of(users_.begin(), users_.end(),
                       [](const auto& user) { return user->ShouldBeNotifiedOnFileIO(); });
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, Status error,
                            bool* auto_recovery) override {
    tell([&](auto& user) { user.OnErrorRecoveryBegin(reason, error, auto_recovery); });
  }
  void OnErrorRecoveryCompleted(Status error) override {
    tell([&](auto& user) { user.OnErrorRecoveryCompleted(error); });
  }
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    tell([&](auto& user) { user.OnErrorRecoveryEnd(info); });
  }
  void OnBlobFileCreationStarted(const rocksdb::BlobFileCreationBriefInfo& info) override {
    tell([&](auto& user) { user.OnBlobFileCreationStarted(info); });
  }
  void OnBlobFileCreated(const rocksdb::BlobFileCreationInfo& info) override {
    tell([&](auto& user) { user.OnBlobFileCreated(info); });
  }
  void OnBlobFileDeleted(const rocksdb::BlobFileDeletionInfo& info) override {
    tell([&](auto& user) { user.OnBlobFileDeleted(info); });
  }
  void OnIOError(const rocksdb::IOErrorInfo& info) override {
    tell_of_files([&](auto& user) { user.OnIOError(info); });
  }

 private:
  [[nodiscard]] rocksdb::DB* shown(rocksdb::DB* tree) const {
    rocksdb::DB* const db = shown_->load();
    return db != nullptr ? db : tree;
  }
  template <class Call>
  void tell(const Call& call) const {
    for (const auto& user : users_) call(*user);
  }
  /// Of each operation on a file only those hear that asked to.
  template <class Call>
  void tell_of_files(const Call& call) const {
    for (const auto& user : users_) {
      if (user->ShouldBeNotifiedOnFileIO()) call(*user);
    }
  }

  std::atomic<Listeners*> owner_;  // null when the engine is gone; the tree may live on
  const Users users_;
  const std::shared_ptr<std::atomic<rocksdb::DB*>> shown_;
};

Listeners::Listeners(Users users)
    : users_(std::move(users)), shown_(std::make_shared<std::atomic<rocksdb::DB*>>(nullptr)) {
  if (users_.empty()) return;
  relay_ = std::make_shared<Relay>(this);
  teller_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Listeners::~Listeners() {
  if (relay_ != nullptr) relay_->leave();
}

Listeners::Users Listeners::for_tree() const { return relay_ == nullptr ? Users() : Users{relay_}; }

// ---- flushes -----------------------------------------------------------------------------------

rocksdb::DB* Listeners::database() const {
  rocksdb::DB* const db = shown_->load();
  return db != nullptr ? db : tree_;
}

Listeners::Job Listeners::job_of(const memtable::View& view, const memtable::FamilyView& family,
                                 std::uint64_t applied) {
  Job job;
  job.memtable.cf_name = family.tree->GetName();
  job.memtable.earliest_seqno = job.memtable.first_seqno = applied;
  job.memtable.num_entries = job.memtable.num_deletes = 0;
  for (const memtable::MemRunPtr& run : family.runs) {
    job.memtable.earliest_seqno = std::min(job.memtable.earliest_seqno, run->begin);
    job.memtable.num_entries += run->run->count();
    job.memtable.num_deletes += deletions_in(*run, *view.table);
  }
  if (family.tombstones != nullptr) {
    family.tombstones->for_each(0, [&](const memtable::Tombstone& one) {
      if (one.position >= applied) return false;
      job.memtable.earliest_seqno = std::min(job.memtable.earliest_seqno, one.position);
      ++job.memtable.num_entries;
      ++job.memtable.num_deletes;
      return true;
    });
  }
  job.memtable.first_seqno = job.memtable.earliest_seqno;
  job.info = rocksdb::FlushJobInfo();
  job.info.cf_id = family.id;
  job.info.cf_name = job.memtable.cf_name;
  job.info.file_number = job.info.oldest_blob_file_number = 0;
  job.info.thread_id = view.tree->GetEnv()->GetThreadID();
  job.info.triggered_writes_slowdown = job.info.triggered_writes_stop = false;
  job.info.smallest_seqno = job.memtable.earliest_seqno;
  job.info.largest_seqno = applied;
  job.info.blob_compression_type = rocksdb::kNoCompression;
  return job;
}

void Listeners::flush_begins(const memtable::View& view, std::uint64_t applied, bool manual) {
  flush_.clear();
  if (users_.empty()) return;
  tree_ = view.tree;
  ++jobs_;
  for (const memtable::FamilyViewPtr& family : view.families) {
    if (family->dropped) continue;
    Job job = job_of(view, *family, applied);
    if (job.memtable.num_entries == 0) continue;
    job.info.job_id = jobs_;
    job.info.flush_reason =
        manual ? rocksdb::FlushReason::kManualFlush : rocksdb::FlushReason::kWriteBufferFull;
    flush_.push_back(std::move(job));
  }
  for (const auto& user : users_) {
    for (const Job& job : flush_) user->OnMemTableSealed(job.memtable);
    for (const Job& job : flush_) user->OnFlushBegin(database(), job.info);
  }
}

/// A family's flush may make several files: the first is named, properties are of all.
void Listeners::add_file(const rocksdb::ExternalFileIngestionInfo& info) {
  for (Job& job : flush_) {
    if (job.info.cf_name != info.cf_name) continue;
    if (job.has_file) {
      job.info.table_properties.Add(info.table_properties);
      continue;
    }
    job.has_file = true;
    job.info.file_path = info.internal_file_path;
    job.info.file_number = file_number(info.internal_file_path);
    job.info.table_properties = info.table_properties;
  }
}

void Listeners::flush_completed() {
  for (const auto& user : users_) {
    for (const Job& job : flush_) user->OnFlushCompleted(database(), job.info);
  }
  flush_.clear();
}

void Listeners::flush_failed() { flush_.clear(); }

// ---- the rest ----------------------------------------------------------------------------------

void Listeners::background_error(rocksdb::BackgroundErrorReason reason, const Status& status) {
  if (users_.empty()) return;
  post([this, reason, status] {
    for (const auto& user : users_) {
      Status changed = status;  // the store stays read-only, whatever a listener makes of it
      user->OnBackgroundError(reason, &changed);
      changed.PermitUncheckedError();
    }
  });
}

void Listeners::stall(const memtable::View& view, bool stalled) {
  if (users_.empty()) return;
  using Condition = rocksdb::WriteStallCondition;
  std::vector<std::string> names;
  for (const memtable::FamilyViewPtr& family : view.families) {
    names.push_back(family->tree->GetName());
  }
  post([this, names, stalled] {
    for (const std::string& name : names) {
      rocksdb::WriteStallInfo info;
      info.cf_name = name;
      info.condition.cur = stalled ? Condition::kStopped : Condition::kNormal;
      info.condition.prev = stalled ? Condition::kNormal : Condition::kStopped;
      for (const auto& user : users_) user->OnStallConditionsChanged(info);
    }
  });
}

void Listeners::post(std::function<void()> event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  wake_.notify_one();
}

void Listeners::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  // What was posted before the end is told.
  while (wake_.wait(lock, stop, [this] { return !events_.empty(); }) || !events_.empty()) {
    const std::function<void()> event = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    event();
    lock.lock();
  }
}

}  // namespace breccia::rocks
