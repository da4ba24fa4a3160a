#include "sst/table_file.h"

#include <fcntl.h>
#include <rocksdb/options.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/huge_pages.h"
#include "base/memory.h"
#include "base/precedence.h"
#include "pmem/posix_file.h"

namespace breccia::sst {

namespace {

class SystemFile final : public TableFile {
 public:
  /// `disk`: on which writes give way; null: they do not.
  SystemFile(std::string path, int number, base::Precedence* disk, std::function<bool()> is_urgent)
      : path_(std::move(path)), file_(number), disk_(disk), is_urgent_(std::move(is_urgent)) {}

  Status write(const char* bytes, std::uint64_t count, std::uint64_t offset) override {
    if (disk_ != nullptr && disk_->has_first() && !(is_urgent_ && is_urgent_())) {
      disk_->give_way(count);
    }
    for (std::uint64_t at = 0; at < count;) {
      const ssize_t done =
          ::pwrite(file_.get(), bytes + at, count - at, static_cast<off_t>(offset + at));
      if (done < 0 && errno == EINTR) continue;
      // Only a full medium writes nothing.
      if (done <= 0) return pmem::status_of_errno("write " + path_, done < 0 ? errno : ENOSPC);
      at += static_cast<std::uint64_t>(done);
    }
    return begin_sync(offset, count);
  }
  Status sync() override {
    if (::fdatasync(file_.get()) == 0) return Status::OK();
    return pmem::status_of_errno("sync " + path_, errno);
  }

 private:
  /// It goes to the disk now, not all at once with the sync, which others would have to wait for.
  /// What fails is told here alone: the system may have dropped the pages.
  Status begin_sync(std::uint64_t offset, std::uint64_t count) {
    const int failed = ::sync_file_range(file_.get(), static_cast<off_t>(offset),
                                         static_cast<off_t>(count), SYNC_FILE_RANGE_WRITE);
    const bool is_advice = failed == 0 || errno == ENOSYS || errno == EINVAL || errno == ESPIPE ||
                           errno == EPERM;  // this one cannot
    return is_advice ? Status::OK() : pmem::status_of_errno("begin to sync " + path_, errno);
  }

  const std::string path_;
  const pmem::Descriptor file_;
  base::Precedence* const disk_;
  const std::function<bool()> is_urgent_;
};

/// Writes what it gets by whole pages, in whatever order that comes.
class WholePageFile final : public TableFile {
 public:
  explicit WholePageFile(std::unique_ptr<TableFile> file) : file_(std::move(file)) {}

  Status write(const char* bytes, std::uint64_t count, std::uint64_t offset) override {
    const std::uint64_t end = offset + count;
    const std::uint64_t first = std::min(base::round_up(offset, kPageBytes), end);
    const std::uint64_t last = std::max(end / kPageBytes * kPageBytes, first);
    {
      const std::lock_guard lock(mutex_);
      written_ += count;
      end_ = std::max(end_, end);
    }
    return base::or_memory_limit([&] {
      BRECCIA_TRY(hold(bytes, first - offset, offset));
      if (last > first) {
        BRECCIA_TRY(file_->write(bytes + (first - offset), last - first, first));
      }
      return hold(bytes + (last - offset), end - last, last);
    });
  }
  Status sync() override {
    // Or a place was left out: only the last page may be a part of one, its first.
    BRECCIA_ASSERT(pages_.size() <= 1 && written_ == end_);
    for (const auto& [number, page] : pages_) {
      BRECCIA_ASSERT(page.bytes == page.end && number * kPageBytes + page.end == end_);
      BRECCIA_TRY(file_->write(page.data.get(), page.bytes, number * kPageBytes));
    }
    pages_.clear();
    return file_->sync();
  }

 private:
  static constexpr std::uint64_t kPageBytes = base::kHugePageBytes;

  struct Page {
    std::unique_ptr<char[]> data;
    std::uint64_t bytes = 0;  // that are here
    std::uint64_t end = 0;    // behind the last of them
  };

  /// Keeps a part of a page, and writes the page when that was the last one.
  Status hold(const char* bytes, std::uint64_t count, std::uint64_t offset) {
    if (count == 0) return Status::OK();
    const std::uint64_t number = offset / kPageBytes;
    const std::uint64_t at = offset % kPageBytes;
    BRECCIA_ASSERT(at + count <= kPageBytes);
    Page whole;
    {
      const std::lock_guard lock(mutex_);
      Page& page = pages_[number];
      if (page.data == nullptr) page.data.reset(new char[kPageBytes]);
      std::memcpy(page.data.get() + at, bytes, count);
      page.bytes += count;
      page.end = std::max(page.end, at + count);
      if (page.bytes < kPageBytes) return Status::OK();
      whole = std::move(page);
      pages_.erase(number);
    }
    BRECCIA_ASSERT(whole.bytes == kPageBytes);
    return file_->write(whole.data.get(), kPageBytes, number * kPageBytes);
  }

  const std::unique_ptr<TableFile> file_;
  std::mutex mutex_;
  std::map<std::uint64_t, Page> pages_;  // of which a part is here, by number
  std::uint64_t written_ = 0;            // bytes of all
  std::uint64_t end_ = 0;                // behind the last of them
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

Result<std::unique_ptr<TableFile>> create_table_file(const std::string& path,
                                                     const TableFileOptions& options) {
  base::Precedence* const disk = options.gives_way ? base::Precedence::of_file(path) : nullptr;
  const int number = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (number < 0) return pmem::status_of_errno("create " + path, errno);
  std::unique_ptr<TableFile> file =
      std::make_unique<SystemFile>(path, number, disk, options.is_urgent);
  if (options.by_whole_pages) file = std::make_unique<WholePageFile>(std::move(file));
  return file;
}

Result<std::unique_ptr<TableFile>> create_table_file(rocksdb::Env* env, const std::string& path,
                                                     const rocksdb::DBOptions& options) {
  if (env->FileExists(path).ok()) BRECCIA_TRY(env->DeleteFile(path));
  std::unique_ptr<rocksdb::WritableFile> file;
  BRECCIA_TRY(env->NewWritableFile(path, &file, rocksdb::EnvOptions(options)));
  return std::unique_ptr<TableFile>(std::make_unique<EnvFile>(std::move(file), options));
}

}  // namespace breccia::sst
