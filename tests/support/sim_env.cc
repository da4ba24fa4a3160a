#include "support/sim_env.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "wal/files_env.h"

namespace breccia::testing {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using wal::SimDisk;
using wal::SimGrowing;

IOStatus io_status(Status status) { return rocksdb::status_to_io_status(std::move(status)); }

/// One spelling for each path: RocksDB ends those of folders with a slash or not.
std::string plain(const std::string& path) {
  std::string made;
  for (const char c : path) {
    if (c != '/' || !made.ends_with('/')) made.push_back(c);
  }
  if (made.size() > 1 && made.ends_with('/')) made.pop_back();
  return made;
}

class SimSequential final : public rocksdb::FSSequentialFile {
 public:
  explicit SimSequential(std::unique_ptr<SimGrowing> file) : file_(std::move(file)) {}
  IOStatus Read(std::size_t bytes, const IOOptions& /*options*/, Slice* result, char* scratch,
                IODebugContext* /*debug*/) override {
    *result = Slice(scratch, file_->read(at_, bytes, scratch));
    at_ += result->size();
    return IOStatus::OK();
  }
  IOStatus Skip(std::uint64_t bytes) override {
    at_ += bytes;
    return IOStatus::OK();
  }

 private:
  const std::unique_ptr<SimGrowing> file_;
  std::uint64_t at_ = 0;
};

class SimRandom final : public rocksdb::FSRandomAccessFile {
 public:
  explicit SimRandom(std::unique_ptr<SimGrowing> file) : file_(std::move(file)) {}
  IOStatus Read(std::uint64_t offset, std::size_t bytes, const IOOptions& /*options*/,
                Slice* result, char* scratch, IODebugContext* /*debug*/) const override {
    *result = Slice(scratch, file_->read(offset, bytes, scratch));
    return IOStatus::OK();
  }

 private:
  const std::unique_ptr<SimGrowing> file_;
};

class SimWritable final : public rocksdb::FSWritableFile {
 public:
  explicit SimWritable(std::unique_ptr<SimGrowing> file) : file_(std::move(file)) {}
  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions& /*options*/,
                  IODebugContext* /*debug*/) override {
    return io_status(file_->append(data));
  }
  IOStatus Flush(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return io_status(file_->sync());
  }
  IOStatus Close(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  std::uint64_t GetFileSize(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return file_->size();
  }

 private:
  const std::unique_ptr<SimGrowing> file_;
};

class SimFolder final : public rocksdb::FSDirectory {
 public:
  SimFolder(std::shared_ptr<wal::Files> files, std::string path)
      : files_(std::move(files)), path_(std::move(path)) {}
  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return io_status(files_->sync_dir(path_));
  }
  IOStatus Close(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }

 private:
  const std::shared_ptr<wal::Files> files_;
  const std::string path_;
};

class SimFileLock final : public rocksdb::FileLock {
 public:
  explicit SimFileLock(std::unique_ptr<wal::FolderLock> lock) : lock_(std::move(lock)) {}

 private:
  const std::unique_ptr<wal::FolderLock> lock_;
};

class SimFileSystem final : public rocksdb::FileSystem {
 public:
  explicit SimFileSystem(SimDisk* disk) : disk_(disk), files_(disk->files()) {}
  [[nodiscard]] const char* Name() const override { return "SimFileSystem"; }

  // ---- files ----

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& /*options*/,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             IODebugContext* /*debug*/) override {
    return opened<SimSequential>(disk_->open(plain(path)), file);
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& /*options*/,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* /*debug*/) override {
    return opened<SimRandom>(disk_->open(plain(path)), file);
  }
  IOStatus NewWritableFile(const std::string& path, const FileOptions& /*options*/,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* /*debug*/) override {
    if (path.find("/OPTIONS-") != std::string::npos) return IOStatus::IOError("not kept");
    return opened<SimWritable>(disk_->create(plain(path)), file);
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& /*options*/,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* /*debug*/) override {
    auto found = disk_->open(plain(path));
    return opened<SimWritable>(found.ok() ? std::move(found) : disk_->create(plain(path)), file);
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions& /*options*/, std::uint64_t* size,
                       IODebugContext* /*debug*/) override {
    auto file = disk_->open(plain(path));
    if (file.ok()) *size = file.value()->size();
    return io_status(file.status());
  }
  IOStatus GetFileModificationTime(const std::string& /*path*/, const IOOptions& /*options*/,
                                   std::uint64_t* time, IODebugContext* /*debug*/) override {
    *time = 0;
    return IOStatus::OK();
  }

  // ---- names ----

  IOStatus FileExists(const std::string& path, const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    if (disk_->has_folder(plain(path))) return IOStatus::OK();
    return io_status(disk_->open(plain(path)).status());
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    Status status = disk_->open(plain(path)).status();
    if (status.ok()) status = files_->remove(plain(path));
    return io_status(status);
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    return io_status(files_->rename(plain(from), plain(to)));
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& /*options*/,
                    IODebugContext* /*debug*/) override {
    return io_status(disk_->link(plain(from), plain(to)));
  }

  // ---- folders ----

  IOStatus NewDirectory(const std::string& path, const IOOptions& /*options*/,
                        std::unique_ptr<rocksdb::FSDirectory>* folder,
                        IODebugContext* /*debug*/) override {
    if (!disk_->has_folder(plain(path))) return IOStatus::NotFound(path);
    *folder = std::make_unique<SimFolder>(files_, plain(path));
    return IOStatus::OK();
  }
  IOStatus GetChildren(const std::string& folder, const IOOptions& /*options*/,
                       std::vector<std::string>* names, IODebugContext* /*debug*/) override {
    if (!disk_->has_folder(plain(folder))) return IOStatus::NotFound(folder);
    *names = disk_->children(plain(folder));
    return IOStatus::OK();
  }
  IOStatus CreateDir(const std::string& path, const IOOptions& /*options*/,
                     IODebugContext* /*debug*/) override {
    auto made = files_->create_dir(plain(path));
    if (made.ok() && !made.value()) return IOStatus::IOError(path, "exists");
    return io_status(made.status());
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& /*options*/,
                              IODebugContext* /*debug*/) override {
    return io_status(files_->create_dir(plain(path)).status());
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions& /*options*/,
                     IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported(path);
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions& /*options*/, bool* is_folder,
                       IODebugContext* /*debug*/) override {
    *is_folder = disk_->has_folder(plain(path));
    return IOStatus::OK();
  }

  // ---- the rest ----

  IOStatus LockFile(const std::string& path, const IOOptions& /*options*/, rocksdb::FileLock** lock,
                    IODebugContext* /*debug*/) override {
    auto taken = files_->lock(plain(path));
    if (taken.ok()) *lock = new SimFileLock(taken.take());
    return io_status(taken.status());
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    delete lock;
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions& /*options*/, std::string* path,
                            IODebugContext* /*debug*/) override {
    *path = "/test";
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions& /*options*/,
                           std::string* absolute, IODebugContext* /*debug*/) override {
    *absolute = path;
    return IOStatus::OK();
  }

 private:
  template <class File, class Base>
  static IOStatus opened(Result<std::unique_ptr<SimGrowing>> file, std::unique_ptr<Base>* to) {
    if (!file.ok()) return io_status(file.status());
    *to = std::make_unique<File>(file.take());
    return IOStatus::OK();
  }

  SimDisk* const disk_;
  const std::shared_ptr<wal::Files> files_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_sim_env(wal::SimDisk* disk) {
  return std::make_unique<wal::FilesEnv>(
      rocksdb::NewCompositeEnv(std::make_shared<SimFileSystem>(disk)), disk->files());
}

std::string kind_of(const std::string& path) {
  const auto has = [&](const char* part) { return path.find(part) != std::string::npos; };
  const std::string name = path.substr(path.rfind('/') + 1);
  if (has("/log/")) return "log segment";
  if (name == "log") return "log folder";
  if (name.starts_with("MANIFEST")) return "manifest";
  if (name.starts_with("BRECCIA_STORE")) return "mark";
  if (name == "CURRENT" || name.ends_with(".dbtmp")) return "current";
  if (name.ends_with(".sst")) return has("/db/0") ? "table" : "staged table";
  if (name.ends_with(".log")) return "tree's log";
  if (name == "db") return "tree folder";
  return path == "/" ? "root folder" : "other";
}

}  // namespace breccia::testing
