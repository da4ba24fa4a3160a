#include "support/sparse_files.h"

#include <fcntl.h>
#include <rocksdb/file_system.h>
#include <unistd.h>

#include "wal/real_files.h"

namespace breccia::testing {

namespace {

class SparseFiles final : public wal::Files {
 public:
  [[nodiscard]] Result<bool> create_dir(const std::string& dir) override {
    return real_->create_dir(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<wal::FolderLock>> lock(const std::string& dir) override {
    return real_->lock(dir);
  }
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    return real_->list(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> create(const std::string& path,
                                                                 std::uint64_t bytes) override {
    const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return Status::IOError("create " + path);
    const bool sized = ::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
    ::close(fd);
    if (!sized) return Status::IOError("size " + path);
    BRECCIA_TAKE(auto file, real_->open(path));
    BRECCIA_TRY(file->wake(path));
    return file;
  }
  [[nodiscard]] Result<std::unique_ptr<wal::SegmentFile>> open(const std::string& path) override {
    return real_->open(path);
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    return real_->rename(from, to);
  }
  [[nodiscard]] Status remove(const std::string& path) override { return real_->remove(path); }
  [[nodiscard]] Status sync_dir(const std::string& dir) override { return real_->sync_dir(dir); }
  [[nodiscard]] std::shared_ptr<wal::Files> for_looking() override { return real_->for_looking(); }

 private:
  const std::shared_ptr<wal::Files> real_ =
      wal::real_files_with(wal::Engine::kPwrite, /*force_buffered=*/true);
};

/// The tree's files without what RocksDB reserves ahead: 70 MB for each log, which a folder in
/// memory clears at once.
class SparseFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  SparseFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  [[nodiscard]] const char* Name() const override { return "SparseFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    return target()->NewWritableFile(path, without_reserving(options), file, debug);
  }
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override {
    return target()->ReopenWritableFile(path, without_reserving(options), file, debug);
  }
  rocksdb::IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* file,
                                      rocksdb::IODebugContext* debug) override {
    return target()->ReuseWritableFile(path, old_path, without_reserving(options), file, debug);
  }

 private:
  static rocksdb::FileOptions without_reserving(rocksdb::FileOptions options) {
    options.allow_fallocate = false;
    return options;
  }
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> make_sparse_file_system() {
  return std::make_shared<SparseFileSystem>();
}

std::shared_ptr<wal::Files> make_sparse_files() { return std::make_shared<SparseFiles>(); }

rocksdb::Env* sparse_env() {
  static wal::FilesEnv env(rocksdb::NewCompositeEnv(make_sparse_file_system()),
                           make_sparse_files());
  return &env;
}

}  // namespace breccia::testing
