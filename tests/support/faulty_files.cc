#include "support/faulty_files.h"

#include <rocksdb/file_system.h>

#include <utility>

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
  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_TRY(faults_->next());
    return below_->write(offset, bytes);
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_TRY(faults_->next());
    return below_->sync(offset, bytes);
  }
  [[nodiscard]] Result<std::uint64_t> load() override {
    BRECCIA_TRY(faults_->next());
    return below_->load();
  }

 private:
  const std::unique_ptr<wal::SegmentFile> below_;
  CallFaults* faults_;
};

class FaultyFiles final : public wal::Files {
 public:
  FaultyFiles(std::shared_ptr<wal::Files> below, CallFaults* faults)
      : below_(std::move(below)), faults_(faults) {}
  [[nodiscard]] Status prepare(const std::string& dir) override {
    BRECCIA_TRY(faults_->next());
    return below_->prepare(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<wal::FolderLock>> lock(const std::string& dir) override {
    BRECCIA_TRY(faults_->next());
    return below_->lock(dir);
  }
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    BRECCIA_TRY(faults_->next());
    return below_->list(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> create(const std::string& path,
                                                                 std::uint64_t bytes) override {
    BRECCIA_TRY(faults_->next());
    return wrap(below_->create(path, bytes));
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> open(const std::string& path) override {
    BRECCIA_TRY(faults_->next());
    return wrap(below_->open(path));
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    BRECCIA_TRY(faults_->next());
    return below_->rename(from, to);
  }
  [[nodiscard]] Status remove(const std::string& path) override {
    BRECCIA_TRY(faults_->next());
    return below_->remove(path);
  }
  [[nodiscard]] Status sync_dir(const std::string& dir) override {
    BRECCIA_TRY(faults_->next());
    return below_->sync_dir(dir);
  }

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
    const IOStatus status = next();
    return status.ok() ? target()->Append(data, options, debug) : status;
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* debug) override {
    const IOStatus status = next();
    return status.ok() ? target()->Append(data, options, verification, debug) : status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    const IOStatus status = next();
    return status.ok() ? target()->Sync(options, debug) : status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    const IOStatus status = next();
    return status.ok() ? target()->Fsync(options, debug) : status;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    const IOStatus status = next();
    const IOStatus closed = target()->Close(options, debug);
    return status.ok() ? closed : status;
  }

 private:
  IOStatus next() { return rocksdb::status_to_io_status(faults_->next()); }
  CallFaults* faults_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(CallFaults* faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}
  [[nodiscard]] const char* Name() const override { return "FaultyFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    if (is_info_log(path)) return target()->NewWritableFile(path, options, file, debug);
    IOStatus status = next();
    if (status.ok()) status = target()->NewWritableFile(path, options, file, debug);
    if (status.ok()) *file = std::make_unique<FaultyWritable>(std::move(*file), faults_);
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    const IOStatus status = is_info_log(from) ? IOStatus::OK() : next();
    return status.ok() ? target()->RenameFile(from, to, options, debug) : status;
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override {
    const IOStatus status = next();
    return status.ok() ? target()->LinkFile(from, to, options, debug) : status;
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* debug) override {
    const IOStatus status = next();
    return status.ok() ? target()->CreateDirIfMissing(path, options, debug) : status;
  }

 private:
  static bool is_info_log(const std::string& path) {
    return path.substr(path.rfind('/') + 1).starts_with("LOG");
  }
  IOStatus next() { return rocksdb::status_to_io_status(faults_->next()); }
  CallFaults* faults_;
};

}  // namespace

std::shared_ptr<wal::Files> make_faulty_files(std::shared_ptr<wal::Files> below,
                                              CallFaults* faults) {
  return std::make_shared<FaultyFiles>(std::move(below), faults);
}

std::unique_ptr<rocksdb::Env> make_faulty_env(CallFaults* faults) {
  return rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(faults));
}

}  // namespace breccia::testing
