#include "pmem/posix_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/assert.h"

namespace breccia::pmem {
namespace {

// A link planted at `path` must not lead a write elsewhere, and no other user may read a region.
constexpr int kOpenFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
constexpr int kFileMode = 0600;

Result<Descriptor> open_and_lock(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags, kFileMode));
  if (file.get() < 0) return status_of_errno("open " + path, errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Status::Busy(path, "the region is open elsewhere");
    return status_of_errno("lock " + path, errno);
  }
  return file;
}

}  // namespace

Status status_of_errno(const std::string& what, int error) {
  BRECCIA_ASSERT(error > 0);
  const std::string why = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) return Status::NoSpace(what, why);
  if (error == ENOENT) return Status::NotFound(what, why);
  return Status::IOError(what, why);
}

Result<Descriptor> open_locked(const std::string& path) { return open_and_lock(path, kOpenFlags); }

Result<Descriptor> create_locked(const std::string& path, std::uint64_t bytes) {
  BRECCIA_ASSERT(bytes > 0);
  BRECCIA_TAKE(Descriptor file, open_and_lock(path, kOpenFlags | O_CREAT));
  if (::ftruncate(file.get(), 0) != 0) return status_of_errno("empty " + path, errno);
  const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    ::unlink(path.c_str());  // Give back what was reserved before the space ran out.
    return status_of_errno("reserve " + path, error);
  }
  return file;
}

Status rename_file(const std::string& from, const std::string& to) {
  BRECCIA_ASSERT(from != to);
  if (std::rename(from.c_str(), to.c_str()) == 0) return Status::OK();
  return status_of_errno("rename " + from, errno);
}

Status sync_folder_of_file(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return status_of_errno("open " + folder, errno);
  if (::fsync(opened.get()) != 0) return status_of_errno("sync " + folder, errno);
  return Status::OK();
}

}  // namespace breccia::pmem
