#include "sst/table_file.h"

#include <fcntl.h>
#include <rocksdb/options.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "pmem/posix_file.h"

namespace breccia::sst {

namespace {

class SystemFile final : public TableFile {
 public:
  SystemFile(std::string path, int number) : path_(std::move(path)), file_(number) {}

  Status write(const char* bytes, std::uint64_t count, std::uint64_t offset) override {
    for (std::uint64_t at = 0; at < count;) {
      const ssize_t done =
          ::pwrite(file_.get(), bytes + at, count - at, static_cast<off_t>(offset + at));
      if (done < 0 && errno == EINTR) continue;
      // Only a full medium writes nothing.
      if (done <= 0) return pmem::status_of_errno("write " + path_, done < 0 ? errno : ENOSPC);
      at += static_cast<std::uint64_t>(done);
    }
    return Status::OK();
  }
  Status sync() override {
    if (::fdatasync(file_.get()) == 0) return Status::OK();
    return pmem::status_of_errno("sync " + path_, errno);
  }

 private:
  const std::string path_;
  const pmem::Descriptor file_;
};

class EnvFile final : public TableFile {
 public:
  EnvFile(std::unique_ptr<rocksdb::WritableFile> file, const rocksdb::DBOptions& options)
      : file_(std::move(file)),
        bytes_per_sync_(options.bytes_per_sync),
        has_fsync_(options.use_fsync) {}

  Status write(const char* bytes, std::uint64_t count, std::uint64_t offset) override {
    BRECCIA_ASSERT(offset == end_);
    BRECCIA_TRY(file_->Append(Slice(bytes, count)));
    end_ += count;
    if (bytes_per_sync_ == 0 || end_ < synced_ + bytes_per_sync_) return Status::OK();
    BRECCIA_TRY(file_->RangeSync(synced_, end_ - synced_));
    synced_ = end_;
    return Status::OK();
  }
  Status sync() override {
    BRECCIA_TRY(file_->Flush());
    BRECCIA_TRY(has_fsync_ ? file_->Fsync() : file_->Sync());
    return file_->Close();
  }

 private:
  const std::unique_ptr<rocksdb::WritableFile> file_;
  const std::uint64_t bytes_per_sync_;
  const bool has_fsync_;
  std::uint64_t end_ = 0;
  std::uint64_t synced_ = 0;
};

}  // namespace

Result<std::unique_ptr<TableFile>> create_table_file(const std::string& path) {
  const int number = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (number < 0) return pmem::status_of_errno("create " + path, errno);
  return std::unique_ptr<TableFile>(std::make_unique<SystemFile>(path, number));
}

Result<std::unique_ptr<TableFile>> create_table_file(rocksdb::Env* env, const std::string& path,
                                                     const rocksdb::DBOptions& options) {
  if (env->FileExists(path).ok()) BRECCIA_TRY(env->DeleteFile(path));
  std::unique_ptr<rocksdb::WritableFile> file;
  BRECCIA_TRY(env->NewWritableFile(path, &file, rocksdb::EnvOptions(options)));
  return std::unique_ptr<TableFile>(std::make_unique<EnvFile>(std::move(file), options));
}

}  // namespace breccia::sst
