#include "machine.h"

#include <fcntl.h>
#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

namespace breccia::metamorphic {

namespace {

/// Says whether a file may still be changed.
class Gate {
 public:
  explicit Gate(const std::atomic<bool>* crashed) : crashed_(crashed) {}
  [[nodiscard]] Status pass() const {
    return crashed_->load() ? Status::IOError("the machine has crashed") : Status::OK();
  }

 private:
  const std::atomic<bool>* crashed_;
};

// ---- under the log -----------------------------------------------------------------------------

class CrashSegment final : public wal::SegmentFile {
 public:
  CrashSegment(std::unique_ptr<wal::SegmentFile> below, Gate gate)
      : below_(std::move(below)), gate_(gate) {}
  [[nodiscard]] std::byte* image() override { return below_->image(); }
  [[nodiscard]] std::uint64_t size() const override { return below_->size(); }
  [[nodiscard]] bool mapped() const override { return below_->mapped(); }
  void rest() override { below_->rest(); }
  [[nodiscard]] Status wake(const std::string& path) override { return below_->wake(path); }
  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_TRY(gate_.pass());
    return below_->write(offset, bytes);
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_TRY(gate_.pass());
    return below_->sync(offset, bytes);
  }
  [[nodiscard]] bool is_stale() const override { return below_->is_stale(); }
  [[nodiscard]] Status renew(const std::string& path) override {
    BRECCIA_TRY(gate_.pass());
    return below_->renew(path);
  }
  [[nodiscard]] Result<std::uint64_t> load() override { return below_->load(); }

 private:
  const std::unique_ptr<wal::SegmentFile> below_;
  const Gate gate_;
};

class CrashFiles final : public wal::Files {
 public:
  CrashFiles(std::shared_ptr<wal::Files> below, Gate gate)
      : below_(std::move(below)), gate_(gate) {}
  [[nodiscard]] Result<bool> create_dir(const std::string& dir) override {
    BRECCIA_TRY(gate_.pass());
    return below_->create_dir(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<wal::FolderLock>> lock(const std::string& dir) override {
    return below_->lock(dir);
  }
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    return below_->list(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> create(const std::string& path,
                                                                 std::uint64_t bytes) override {
    BRECCIA_TRY(gate_.pass());
    // It takes up only what is written to it, so that a store opens in little time.
    const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return Status::IOError("create " + path);
    const bool sized = ::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
    ::close(fd);
    if (!sized) return Status::IOError("size " + path);
    BRECCIA_TAKE(auto file, open(path));
    BRECCIA_TRY(file->wake(path));
    return file;
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> open(const std::string& path) override {
    return wrap(below_->open(path));
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    BRECCIA_TRY(gate_.pass());
    return below_->rename(from, to);
  }
  [[nodiscard]] Status remove(const std::string& path) override {
    BRECCIA_TRY(gate_.pass());
    return below_->remove(path);
  }
  [[nodiscard]] Status sync_dir(const std::string& dir) override {
    BRECCIA_TRY(gate_.pass());
    return below_->sync_dir(dir);
  }
  [[nodiscard]] std::shared_ptr<wal::Files> for_looking() override { return below_->for_looking(); }

 private:
  Result<std::unique_ptr<wal::SegmentFile>> wrap(Result<std::unique_ptr<wal::SegmentFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<wal::SegmentFile>(std::make_unique<CrashSegment>(file.take(), gate_));
  }

  const std::shared_ptr<wal::Files> below_;
  const Gate gate_;
};

// ---- under the tree ----------------------------------------------------------------------------

using rocksdb::DataVerificationInfo;
using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

IOStatus pass(const Gate& gate) { return rocksdb::status_to_io_status(gate.pass()); }

/// What happens to a file's bytes after a crash.
enum class After {
  kRefused,
  /// They are lost in silence. A RocksDB with assertions ends the process where a table that would
  /// have been empty cannot be written: it looks into the smallest key, which there is none of
  /// (7.8, `CompactionState::SmallestUserKey`). Nothing takes in a table whose bytes are lost: the
  /// MANIFEST refuses.
  kLost,
};

class CrashWritable final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  CrashWritable(std::unique_ptr<FSWritableFile> below, Gate gate, After after)
      : FSWritableFileOwnerWrapper(std::move(below)), gate_(gate), after_(after) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return change([&] { return target()->Append(data, options, debug); });
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const DataVerificationInfo& verification, IODebugContext* debug) override {
    return change([&] { return target()->Append(data, options, verification, debug); });
  }
  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    return change([&] { return target()->Truncate(size, options, debug); });
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return change([&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return change([&] { return target()->Fsync(options, debug); });
  }

 private:
  template <class Work>
  IOStatus change(const Work& work) {
    const IOStatus status = pass(gate_);
    if (status.ok()) return work();
    return after_ == After::kLost ? IOStatus::OK() : status;
  }

  const Gate gate_;
  const After after_;
};

class CrashFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit CrashFileSystem(Gate gate)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), gate_(gate) {}
  [[nodiscard]] const char* Name() const override { return "CrashFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    // Nobody reads the options' file; to write it takes a sixth of a list's time.
    if (path.find("/OPTIONS-") != std::string::npos) return IOStatus::IOError("not kept");
    IOStatus status = pass(gate_);
    if (status.ok()) status = target()->NewWritableFile(path, options, file, debug);
    const After after = path.ends_with(".sst") ? After::kLost : After::kRefused;
    if (status.ok()) *file = std::make_unique<CrashWritable>(std::move(*file), gate_, after);
    return status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    const IOStatus status = pass(gate_);
    return status.ok() ? target()->DeleteFile(path, options, debug) : status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    const IOStatus status = pass(gate_);
    return status.ok() ? target()->RenameFile(from, to, options, debug) : status;
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override {
    const IOStatus status = pass(gate_);
    return status.ok() ? target()->LinkFile(from, to, options, debug) : status;
  }
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override {
    const IOStatus status = pass(gate_);
    return status.ok() ? target()->CreateDir(path, options, debug) : status;
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* debug) override {
    const IOStatus status = pass(gate_);
    return status.ok() ? target()->CreateDirIfMissing(path, options, debug) : status;
  }

 private:
  const Gate gate_;
};

/// What RocksDB does in the background fails after a crash, and then it waits a second; not here.
class CrashClock final : public rocksdb::SystemClockWrapper {
 public:
  explicit CrashClock(Gate gate)
      : SystemClockWrapper(rocksdb::SystemClock::Default()), gate_(gate) {}
  [[nodiscard]] const char* Name() const override { return "CrashClock"; }
  void SleepForMicroseconds(int micros) override {
    if (gate_.pass().ok()) SystemClockWrapper::SleepForMicroseconds(micros);
  }

 private:
  const Gate gate_;
};

class CrashEnv final : public wal::FilesEnv {
 public:
  CrashEnv(Gate gate, std::shared_ptr<wal::Files> log)
      : FilesEnv(rocksdb::NewCompositeEnv(std::make_shared<CrashFileSystem>(gate)),
                 std::make_shared<CrashFiles>(std::move(log), gate)) {
    system_clock_ = std::make_shared<CrashClock>(gate);
  }
};

}  // namespace

Machine::Machine(std::shared_ptr<wal::Files> log)
    : env_(std::make_unique<CrashEnv>(Gate(&crashed_), std::move(log))) {}

}  // namespace breccia::metamorphic
