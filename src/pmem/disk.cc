#include "pmem/disk.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "pmem/posix_file.h"

namespace breccia::pmem {
namespace {

class RealFile final : public DiskFile {
 public:
  RealFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {
    BRECCIA_ASSERT(file_.get() >= 0);
  }

  Result<std::uint64_t> size() override {
    struct stat facts;
    if (::fstat(file_.get(), &facts) != 0) return status_of_errno("stat " + path_, errno);
    return static_cast<std::uint64_t>(facts.st_size);
  }

  Status read(std::uint64_t offset, std::span<std::byte> into) override {
    while (!into.empty()) {
      const auto at = static_cast<off_t>(offset);
      const ssize_t got = ::pread(file_.get(), into.data(), into.size(), at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return status_of_errno("read " + path_, errno);
      if (got == 0) return Status::IOError("read " + path_, "the file ends early");
      BRECCIA_ASSERT(static_cast<std::size_t>(got) <= into.size());
      offset += static_cast<std::uint64_t>(got);
      into = into.subspan(static_cast<std::size_t>(got));
    }
    return Status::OK();
  }

  Status write(std::uint64_t offset, std::span<const std::byte> from) override {
    while (!from.empty()) {
      const auto at = static_cast<off_t>(offset);
      const ssize_t put = ::pwrite(file_.get(), from.data(), from.size(), at);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return status_of_errno("write " + path_, put < 0 ? errno : ENOSPC);
      BRECCIA_ASSERT(static_cast<std::size_t>(put) <= from.size());
      offset += static_cast<std::uint64_t>(put);
      from = from.subspan(static_cast<std::size_t>(put));
    }
    return Status::OK();
  }

  Status sync() override {
    if (::fdatasync(file_.get()) == 0) return Status::OK();
    return status_of_errno("sync " + path_, errno);
  }

 private:
  std::string path_;
  Descriptor file_;
};

class RealDisk final : public Disk {
 public:
  Result<std::unique_ptr<DiskFile>> open(const std::string& path) override {
    BRECCIA_TAKE(Descriptor file, open_locked(path));
    return std::unique_ptr<DiskFile>(std::make_unique<RealFile>(path, std::move(file)));
  }

  Result<std::unique_ptr<DiskFile>> create(const std::string& path, std::uint64_t bytes) override {
    BRECCIA_TAKE(Descriptor file, create_locked(path, bytes));
    return std::unique_ptr<DiskFile>(std::make_unique<RealFile>(path, std::move(file)));
  }

  Status rename(const std::string& from, const std::string& to) override {
    return rename_file(from, to);
  }

  Status sync_folder_of(const std::string& path) override { return sync_folder_of_file(path); }
};

}  // namespace

std::shared_ptr<Disk> real_disk() { return std::make_shared<RealDisk>(); }

}  // namespace breccia::pmem
