#include "support/faulty_files.h"

#include <rocksdb/file_system.h>

#include <utility>

#include "support/sparse_files.h"
#include "wal/files_env.h"

namespace breccia::testing {

namespace {

// ---- under the log -----------------------------------------------------------------------------

class FaultySegment final : public wal::SegmentFile {
 public:
  FaultySegment(std::unique_ptr<wal::SegmentFile> below, CallFaults* faults)
      : below_(std::move(below)), faults_(faults) {}
  [[nodiscard]] std::byte* image() override { return below_->image(); }
  [[nodiscard]] std::uint64_t size() const override { return below_->size(); }
  [[nodiscard]] bool mapped() const override { return below_->mapped(); }
  void rest() override { below_->rest(); }
  [[nodiscard]] Status wake(const std::string& path) override {
    return faults_->call([&] { return below_->wake(path); });
  }
  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    return faults_->call([&] { return below_->write(offset, bytes); });
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    return faults_->call([&] { return below_->sync(offset, bytes); });
  }
  [[nodiscard]] bool is_stale() const override { return below_->is_stale(); }
  [[nodiscard]] Status renew(const std::string& path) override {
    return faults_->call([&] { return below_->renew(path); });
  }
  [[nodiscard]] Result<std::uint64_t> load() override {
    return faults_->call([&] { return below_->load(); });
  }

 private:
  const std::unique_ptr<wal::SegmentFile> below_;
  CallFaults* faults_;
};

class FaultyFiles final : public wal::Files {
 public:
  FaultyFiles(std::shared_ptr<wal::Files> below, CallFaults* faults)
      : below_(std::move(below)), faults_(faults) {}
  [[nodiscard]] Result<bool> create_dir(const std::string& dir) override {
    return faults_->call([&] { return below_->create_dir(dir); });
  }
  [[nodiscard]] Result<std::unique_ptr<wal::FolderLock>> lock(const std::string& dir) override {
    return faults_->call([&] { return below_->lock(dir); });
  }
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    return faults_->call([&] { return below_->list(dir); });
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> create(const std::string& path,
                                                                 std::uint64_t bytes) override {
    return faults_->call([&] { return wrap(below_->create(path, bytes)); });
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> open(const std::string& path) override {
    return faults_->call([&] { return wrap(below_->open(path)); });
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    return faults_->call([&] { return below_->rename(from, to); });
  }
  [[nodiscard]] Status remove(const std::string& path) override {
    return faults_->call([&] { return below_->remove(path); });
  }
  [[nodiscard]] Status sync_dir(const std::string& dir) override {
    return faults_->call([&] { return below_->sync_dir(dir); });
  }
  [[nodiscard]] std::shared_ptr<wal::Files> for_looking() override { return below_->for_looking(); }

 private:
  Result<std::unique_ptr<wal::SegmentFile>> wrap(Result<std::unique_ptr<wal::SegmentFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<wal::SegmentFile>(std::make_unique<FaultySegment>(file.take(), faults_));
  }

  const std::shared_ptr<wal::Files> below_;
  CallFaults* faults_;
};

// ---- under the tree ----------------------------------------------------------------------------

using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class FaultyWritable final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyWritable(std::unique_ptr<FSWritableFile> below, CallFaults* faults)
      : FSWritableFileOwnerWrapper(std::move(below)), faults_(faults) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return call([&] { return target()->Append(data, options, debug); });
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* debug) override {
    return call([&] { return target()->Append(data, options, verification, debug); });
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return call([&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return call([&] { return target()->Fsync(options, debug); });
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    const IOStatus closed = target()->Close(options, debug);  // closed in any case
    return call([&] { return closed; });
  }

 private:
  template <class Work>
  IOStatus call(const Work& work) {
    return faults_->call(
        work, [](Status status) { return rocksdb::status_to_io_status(std::move(status)); });
  }
  CallFaults* faults_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(CallFaults* faults)
      : FileSystemWrapper(make_sparse_file_system()), faults_(faults) {}
  [[nodiscard]] const char* Name() const override { return "FaultyFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    if (is_info_log(path)) return target()->NewWritableFile(path, options, file, debug);
    const IOStatus status =
        call([&] { return target()->NewWritableFile(path, options, file, debug); });
    if (status.ok()) *file = std::make_unique<FaultyWritable>(std::move(*file), faults_);
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    if (is_info_log(from)) return target()->RenameFile(from, to, options, debug);
    return call([&] { return target()->RenameFile(from, to, options, debug); });
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override {
    return call([&] { return target()->LinkFile(from, to, options, debug); });
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* debug) override {
    return call([&] { return target()->CreateDirIfMissing(path, options, debug); });
  }

 private:
  static bool is_info_log(const std::string& path) {
    return path.substr(path.rfind('/') + 1).starts_with("LOG");
  }
  template <class Work>
  IOStatus call(const Work& work) {
    return faults_->call(
        work, [](Status status) { return rocksdb::status_to_io_status(std::move(status)); });
  }
  CallFaults* faults_;
};

}  // namespace

std::shared_ptr<wal::Files> make_faulty_files(std::shared_ptr<wal::Files> below,
                                              CallFaults* faults) {
  return std::make_shared<FaultyFiles>(std::move(below), faults);
}

std::unique_ptr<rocksdb::Env> make_faulty_log_env(CallFaults* faults) {
  return std::make_unique<wal::FilesEnv>(rocksdb::NewCompositeEnv(make_sparse_file_system()),
                                         make_faulty_files(make_sparse_files(), faults));
}

std::unique_ptr<rocksdb::Env> make_faulty_env(CallFaults* faults) {
  return std::make_unique<wal::FilesEnv>(
      rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(faults)), make_sparse_files());
}

}  // namespace breccia::testing
