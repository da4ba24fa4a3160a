#include "tree/tree_events.h"

#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "tree/install_gate.h"
#include "tree/tree.h"

namespace breccia::tree {

namespace {

using rocksdb::EventListener;

/// Events of files and jobs, for all users.
///
/// What a compaction's thread tells is told there, as RocksDB's is: a listener may hold it up. Of
/// other threads nobody knows what they hold, so theirs goes to the teller; and so does all that
/// comes before there is a database to show.
class TreeEvents final : public EventListener {
 public:
  using OnStaged = std::function<void(const rocksdb::ExternalFileIngestionInfo&)>;

  TreeEvents(std::shared_ptr<Audience> audience, OnStaged on_staged)
      : audience_(std::move(audience)), on_staged_(std::move(on_staged)) {}
  [[nodiscard]] const char* Name() const override { return "breccia.TreeEvents"; }

  // ---- compactions, and the flushes of an opening ----

  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    tell(info, [](auto& user, auto* db, auto& info) { user.OnFlushBegin(db, info); });
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    tell(info, [](auto& user, auto* db, auto& info) { user.OnFlushCompleted(db, info); });
  }
  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override {
    tell(info, [](auto& user, auto*, auto& info) { user.OnMemTableSealed(info); });
  }
  // An opening's compactions may take files away before anyone has seen that they are there.
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
    if (is_reserved(info.cf_name)) base::as_memory_allows([&] { note_own(info.input_files); });
    tell(info, [](auto& user, auto* db, auto& info) { user.OnCompactionBegin(db, info); });
  }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
    tell(info, [](auto& user, auto* db, auto& info) { user.OnCompactionCompleted(db, info); });
  }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override {
    tell(info, [](auto& user, auto*, auto& info) { user.OnSubcompactionBegin(info); });
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& info) override {
    tell(info, [](auto& user, auto*, auto& info) { user.OnSubcompactionCompleted(info); });
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    if (is_reserved(info.cf_name)) base::as_memory_allows([&] { note_own({info.file_path}); });
    tell(info, [](auto& user, auto*, auto& info) { user.OnTableFileCreationStarted(info); });
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    tell(info, [](auto& user, auto*, auto& info) { user.OnTableFileCreated(info); });
  }
  void OnBlobFileCreationStarted(const rocksdb::BlobFileCreationBriefInfo& info) override {
    tell(info, [](auto& user, auto*, auto& info) { user.OnBlobFileCreationStarted(info); });
  }
  void OnBlobFileCreated(const rocksdb::BlobFileCreationInfo& info) override {
    tell(info, [](auto& user, auto*, auto& info) { user.OnBlobFileCreated(info); });
  }

  // ---- what any thread may come upon ----

  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override {
    if (!audience_->own_files().contains(info.file_path)) {
      return post(info, [](auto& user, auto*, auto& info) { user.OnTableFileDeleted(info); });
    }
    // Behind what is still to be told of the file.
    base::as_memory_allows([&] {
      audience_->post([audience = audience_.get(), path = info.file_path] {
        audience->own_files().remove(path);
      });
    });
  }
  void OnBlobFileDeleted(const rocksdb::BlobFileDeletionInfo& info) override {
    post(info, [](auto& user, auto*, auto& info) { user.OnBlobFileDeleted(info); });
  }
  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    if (is_reserved(info.cf_name)) return;
    post(info, [](auto& user, auto*, auto& info) { user.OnStallConditionsChanged(info); });
  }
  void OnExternalFileIngested(rocksdb::DB*,
                              const rocksdb::ExternalFileIngestionInfo& info) override {
    base::as_memory_allows([&] {
      if (is_reserved(info.cf_name)) return audience_->own_files().add(info.internal_file_path);
      if (is_staged(info.external_file_path)) return audience_->tell([&] { on_staged_(info); });
      audience_->tell_later([audience = audience_.get(), info] {
        for (const auto& user : audience->users()) {
          user->OnExternalFileIngested(audience->shown(), info);
        }
      });
    });
  }

  // ---- errors: who hears of them may change what comes of them ----

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, Status* error) override {
    tell_error([&](auto& user) { user.OnBackgroundError(reason, error); });
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, Status error,
                            bool* auto_recovery) override {
    tell_error([&](auto& user) { user.OnErrorRecoveryBegin(reason, error, auto_recovery); });
  }
  void OnErrorRecoveryCompleted(Status error) override {
    tell_error([&](auto& user) { user.OnErrorRecoveryCompleted(error); });
  }
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    tell_error([&](auto& user) { user.OnErrorRecoveryEnd(info); });
  }

 private:
  void note_own(const std::vector<std::string>& files) const {
    for (const std::string& file : files) audience_->own_files().add(file);
  }
  /// Of a job or a file: here, once there is a database to show.
  template <class Info, class Call>
  void tell(const Info& info, const Call& call) const {
    if (is_reserved(info.cf_name)) return;
    if (!audience_->is_open()) return post(info, call);
    audience_->wait_for_backlog();
    audience_->tell([&] {
      for (const auto& user : audience_->users()) call(*user, audience_->shown(), info);
    });
  }
  template <class Call>
  void tell_error(const Call& call) const {
    audience_->tell([&] {
      for (const auto& user : audience_->users()) call(*user);
    });
  }
  template <class Info, class Call>
  void post(const Info& info, const Call& call) const {
    base::as_memory_allows([&] {
      audience_->post([audience = audience_.get(), info, call] {
        for (const auto& user : audience->users()) call(*user, audience->shown(), info);
      });
    });
  }

  const std::shared_ptr<Audience> audience_;
  const OnStaged on_staged_;
};

/// An operation on a file, for who hears of it later: RocksDB's points to what is gone then.
struct FileOperation {
  explicit FileOperation(const rocksdb::FileOperationInfo& now)
      : path(now.path),
        started(now.start_ts, {}),
        info(now.type, path, started, started.second + now.duration, now.status, now.temperature) {
    info.offset = now.offset;
    info.length = now.length;
  }
  const std::string path;
  const rocksdb::FileOperationInfo::StartTimePoint started;
  rocksdb::FileOperationInfo info;
};

/// Operations on files, for one user.
class FileEvents final : public EventListener {
 public:
  FileEvents(std::shared_ptr<Audience> audience, std::shared_ptr<EventListener> user)
      : audience_(std::move(audience)), user_(std::move(user)) {}
  [[nodiscard]] const char* Name() const override { return "breccia.FileEvents"; }

  bool ShouldBeNotifiedOnFileIO() override {
    bool wanted = false;
    audience_->tell([&] { wanted = user_->ShouldBeNotifiedOnFileIO(); });
    return wanted;
  }
  void OnFileReadFinish(const rocksdb::FileOperationInfo& info) override {
    tell(info, &EventListener::OnFileReadFinish);
  }
  void OnFileWriteFinish(const rocksdb::FileOperationInfo& info) override {
    tell(info, &EventListener::OnFileWriteFinish);
  }
  void OnFileFlushFinish(const rocksdb::FileOperationInfo& info) override {
    tell(info, &EventListener::OnFileFlushFinish);
  }
  void OnFileSyncFinish(const rocksdb::FileOperationInfo& info) override {
    tell(info, &EventListener::OnFileSyncFinish);
  }
  void OnFileRangeSyncFinish(const rocksdb::FileOperationInfo& info) override {
    tell(info, &EventListener::OnFileRangeSyncFinish);
  }
  void OnFileTruncateFinish(const rocksdb::FileOperationInfo& info) override {
    tell(info, &EventListener::OnFileTruncateFinish);
  }
  void OnFileCloseFinish(const rocksdb::FileOperationInfo& info) override {
    tell(info, &EventListener::OnFileCloseFinish);
  }
  void OnIOError(const rocksdb::IOErrorInfo& info) override {
    if (audience_->own_files().contains(info.file_path)) return;
    if (audience_->may_tell_here()) {
      const InstallGate::FileCallback callback;
      return audience_->tell([&] { user_->OnIOError(info); });
    }
    base::as_memory_allows([&] {
      audience_->tell_later([audience = audience_.get(), user = user_.get(), info] {
        if (!audience->own_files().contains(info.file_path)) user->OnIOError(info);
      });
    });
  }

 private:
  using Operation = void (EventListener::*)(const rocksdb::FileOperationInfo&);

  void tell(const rocksdb::FileOperationInfo& info, Operation operation) const {
    if (audience_->own_files().contains(info.path)) return;
    if (audience_->may_tell_here()) {
      const InstallGate::FileCallback callback;
      return audience_->tell([&] { ((*user_).*operation)(info); });
    }
    // Whose file it is may not be known before it is in the tree, nor when it is gone.
    base::as_memory_allows([&] {
      audience_->tell_later([audience = audience_.get(), user = user_.get(), operation,
                             kept = std::make_shared<const FileOperation>(info)] {
        if (!audience->own_files().contains(kept->path)) (user->*operation)(kept->info);
      });
    });
  }

  const std::shared_ptr<Audience> audience_;
  const std::shared_ptr<EventListener> user_;
};

}  // namespace

Audience::Users make_tree_events(
    const std::shared_ptr<Audience>& audience,
    std::function<void(const rocksdb::ExternalFileIngestionInfo&)> on_staged) {
  if (audience->users().empty()) return {};
  Audience::Users all{std::make_shared<TreeEvents>(audience, std::move(on_staged))};
  for (const auto& user : audience->users()) {
    all.push_back(std::make_shared<FileEvents>(audience, user));
  }
  return all;
}

}  // namespace breccia::tree
