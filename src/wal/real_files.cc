#include "wal/real_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/descriptor.h"
#include "base/huge_pages.h"
#include "base/memory.h"
#include "pmem/region.h"
#include "wal/ring.h"

/// Segment files on real media, one class for each:
///   BufferedFile  a disk: what stands in its image in memory is written by pwrite or io_uring
///   TmpfsFile     mapped; there is nothing below to sync to
///   DaxFile       mapped persistent memory; synced by flushing CPU caches
///   ReadOnlyFile  a private map, to be looked at
/// RealFiles finds out which one a folder's medium needs, once a folder, and does the folder's
/// part: names, locks, syncs.

namespace breccia::wal {
namespace {

constexpr std::uint64_t kReadPieceBytes = 8ULL << 20;

using Fd = base::Descriptor;

Result<Fd> open_file(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return io_status("open", path, errno);
  return Fd(fd);
}

/// Reserves [0, bytes), so that no later write can find the medium full.
Status reserve_space(const Fd& fd, const std::string& path, std::uint64_t bytes) {
  BRECCIA_ASSERT(bytes > 0);
  int error = 0;
  do {
    error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error != 0) return io_status("reserve space for", path, error);
  return Status::OK();
}

Result<struct stat> about(const Fd& fd, const std::string& path) {
  struct stat found;
  if (::fstat(fd.get(), &found) != 0) return io_status("stat", path, errno);
  return found;
}

std::uint64_t size_of(const struct stat& about) {
  BRECCIA_ASSERT(about.st_size >= 0);
  return static_cast<std::uint64_t>(about.st_size);
}

Status read_range(const Fd& fd, const std::string& path, std::byte* image, std::uint64_t from,
                  std::uint64_t to) {
  while (from < to) {
    const std::uint64_t bytes = std::min(kReadPieceBytes, to - from);
    const ssize_t got = ::pread(fd.get(), image + from, bytes, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_status("read", path, errno);
    if (got == 0) return Status::IOError("read " + path, "the file became shorter");
    BRECCIA_ASSERT(static_cast<std::uint64_t>(got) <= bytes);
    from += static_cast<std::uint64_t>(got);
  }
  return Status::OK();
}

/// Calls visit(begin, end) for each range below `size` that holds data or may hold some, ascending.
/// What was only reserved does not count.
template <class Visit>
Status for_each_data_range(const Fd& fd, const std::string& path, std::uint64_t size,
                           const Visit& visit) {
  std::uint64_t at = 0;
  while (at < size) {
    const off_t data = ::lseek(fd.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return Status::OK();
    if (data < 0) return io_status("seek in", path, errno);
    const off_t hole = ::lseek(fd.get(), data, SEEK_HOLE);
    if (hole < 0) return io_status("seek in", path, errno);
    at = std::min(static_cast<std::uint64_t>(hole), size);
    BRECCIA_TRY(visit(static_cast<std::uint64_t>(data), at));
  }
  return Status::OK();
}

/// Where the last range that may hold data ends.
Result<std::uint64_t> data_end(const Fd& fd, const std::string& path, std::uint64_t size) {
  std::uint64_t end = 0;
  BRECCIA_TRY(for_each_data_range(fd, path, size, [&](std::uint64_t, std::uint64_t to) {
    end = to;
    return Status::OK();
  }));
  BRECCIA_ASSERT(end <= size);
  return end;
}

Result<std::byte*> map(const std::string& path, std::uint64_t bytes, int flags, int fd) {
  // An empty file cannot be mapped; the log reports it by its size.
  if (bytes == 0) return static_cast<std::byte*>(nullptr);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) return io_status("map", path, errno);
  return static_cast<std::byte*>(at);
}

class BufferedFile final : public SegmentFile {
 public:
  BufferedFile(std::string path, const struct stat& about, std::byte* image,
               std::shared_ptr<Writer> writer)
      : path_(std::move(path)), about_(about), image_(image), writer_(std::move(writer)) {}
  ~BufferedFile() override {
    if (image_ != nullptr) ::munmap(image_, size());
  }
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;

  [[nodiscard]] std::byte* image() override { return image_; }
  [[nodiscard]] std::uint64_t size() const override { return size_of(about_); }
  [[nodiscard]] bool mapped() const override { return false; }

  void rest() override { fd_.reset(); }
  [[nodiscard]] Status wake(const std::string& path) override {
    if (fd_) return Status::OK();
    path_ = path;
    BRECCIA_TAKE(Fd fd, open_file(path, O_RDWR));
    BRECCIA_TAKE(const struct stat now, about(fd, path));
    if (now.st_dev != about_.st_dev || now.st_ino != about_.st_ino) {
      return Status::IOError("open " + path, "somebody has put another file in its place");
    }
    fd_.emplace(std::move(fd));
    return Status::OK();
  }
  /// Wakes it with the descriptor that its maker has.
  void wake(Fd fd) {
    BRECCIA_ASSERT(!fd_.has_value());
    use_huge_pages();
    fd_.emplace(std::move(fd));
  }

  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    BRECCIA_ASSERT(fd_.has_value());
    note_unsynced();
    return writer_->write(fd_->get(), image_ + offset, offset, bytes, path_);
  }

  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    BRECCIA_ASSERT(fd_.has_value());
    // No second try, not even after EINTR: the kernel reports a lost page only once.
    if (::fdatasync(fd_->get()) != 0) return io_status("sync", path_, errno);
    has_unsynced_ = false;
    return Status::OK();
  }

  [[nodiscard]] Status write_through(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    BRECCIA_ASSERT(fd_.has_value());
    const iovec range{image_ + offset, bytes};
    const ssize_t got = ::pwritev2(fd_->get(), &range, 1, static_cast<off_t>(offset), RWF_DSYNC);
    if (got == static_cast<ssize_t>(bytes)) return Status::OK();
    const int error = got < 0 ? errno : EIO;  // of a part that was written nothing is known
    const bool is_known = error != EOPNOTSUPP && error != ENOSYS;
    return is_known ? io_status("write and sync", path_, error)
                    : SegmentFile::write_through(offset, bytes);
  }

  [[nodiscard]] bool is_stale() const override {
    const auto now = Clock::now();
    return has_unsynced_ && now - unsynced_since_ > kStaleAge && now - written_ < kWrittenAge;
  }
  [[nodiscard]] Status renew(const std::string& path) override {
    BRECCIA_ASSERT(!fd_.has_value());
    std::string own = path;  // there is no memory to be found behind the file
    BRECCIA_TAKE(Fd fd, open_file(path, O_CREAT | O_EXCL | O_RDWR));
    const Status reserved = reserve_space(fd, path, size());
    auto now = reserved.ok() ? about(fd, path) : Result<struct stat>(base::copy_of(reserved));
    if (!now.ok()) {
      ::unlink(path.c_str());
      return now.status();
    }
    path_ = std::move(own);
    about_ = now.value();
    fd_.emplace(std::move(fd));
    has_unsynced_ = false;
    return Status::OK();
  }

  /// Reads what was ever written and skips the rest, so that the image's unused part stays
  /// without memory.
  [[nodiscard]] Result<std::uint64_t> load() override {
    BRECCIA_ASSERT(!fd_.has_value());
    BRECCIA_TAKE(const Fd fd, open_file(path_, O_RDONLY));
    use_huge_pages();
    std::uint64_t used = 0;
    BRECCIA_TRY(for_each_data_range(fd, path_, size(), [&](std::uint64_t from, std::uint64_t to) {
      used = to;
      return read_range(fd, path_, image_, from, to);
    }));
    BRECCIA_ASSERT(used <= size());
    return used;
  }

 private:
  /// Fewer faults when the image fills; without them it works the same. Not where only the header
  /// of a file is looked at: a log may have thousands.
  void use_huge_pages() {
    if (image_ != nullptr) ::madvise(image_, size(), MADV_HUGEPAGE);
  }

  void note_unsynced() {
    const auto now = Clock::now();
    if (!has_unsynced_ || now - written_ > kWrittenAge) unsynced_since_ = now;
    has_unsynced_ = true;
    written_ = now;
  }

  using Clock = std::chrono::steady_clock;
  /// Linux writes what it has had for 30 s (vm.dirty_expire_centisecs), all files that grew old
  /// together at once, and looks for it every 5 s. What is older it has written.
  static constexpr std::chrono::seconds kStaleAge{15};
  static constexpr std::chrono::seconds kWrittenAge{35};

  std::string path_;
  struct stat about_;
  std::byte* const image_;
  const std::shared_ptr<Writer> writer_;
  std::optional<Fd> fd_;  // none: at rest
  bool has_unsynced_ = false;
  Clock::time_point unsynced_since_;
  Clock::time_point written_;  // the last time
};

/// A file whose medium is mapped has no use for a descriptor.
class MappedFile : public SegmentFile {
 public:
  [[nodiscard]] bool mapped() const final { return true; }
  void rest() final {}
  [[nodiscard]] Status wake(const std::string&) final { return Status::OK(); }
};

/// tmpfs: the page cache is the medium, and nothing lies below it.
class TmpfsFile final : public MappedFile {
 public:
  TmpfsFile(std::string path, std::byte* image, std::uint64_t size)
      : path_(std::move(path)), image_(image), size_(size) {}
  ~TmpfsFile() override {
    if (image_ != nullptr) ::munmap(image_, size_);
  }
  TmpfsFile(const TmpfsFile&) = delete;
  TmpfsFile& operator=(const TmpfsFile&) = delete;

  [[nodiscard]] std::byte* image() override { return image_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    return sync(offset, bytes);
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size_ && bytes <= size_ - offset);
    std::atomic_thread_fence(std::memory_order_release);
    return Status::OK();
  }
  /// Pages that were never touched count as holes; to read them would make and clear them.
  [[nodiscard]] Result<std::uint64_t> load() override {
    BRECCIA_TAKE(const Fd fd, open_file(path_, O_RDONLY));
    return data_end(fd, path_, size_);
  }

 private:
  const std::string path_;  // as it was opened
  std::byte* const image_;
  const std::uint64_t size_;
};

/// Persistent memory. Stores survive a kill by themselves, caught in a cache or not; only sync
/// flushes them out of the caches.
class DaxFile final : public MappedFile {
 public:
  explicit DaxFile(std::unique_ptr<pmem::Region> region) : region_(std::move(region)) {
    BRECCIA_ASSERT(region_ != nullptr);
  }

  [[nodiscard]] std::byte* image() override { return region_->data(); }
  [[nodiscard]] std::uint64_t size() const override { return region_->size(); }
  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    std::atomic_thread_fence(std::memory_order_release);
    return Status::OK();
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    return region_->persist(offset, bytes);
  }
  [[nodiscard]] Result<std::uint64_t> load() override { return size(); }

 private:
  const std::unique_ptr<pmem::Region> region_;
};

/// A segment to be read: a private map of the file.
class ReadOnlyFile final : public MappedFile {
 public:
  ReadOnlyFile(std::string path, std::byte* image, std::uint64_t size)
      : path_(std::move(path)), image_(image), size_(size) {}
  ~ReadOnlyFile() override {
    if (image_ != nullptr) ::munmap(image_, size_);
  }
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  [[nodiscard]] std::byte* image() override { return image_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] Status write(std::uint64_t, std::uint64_t) override { return for_reading(path_); }
  [[nodiscard]] Status sync(std::uint64_t, std::uint64_t) override { return for_reading(path_); }
  [[nodiscard]] Result<std::uint64_t> load() override {
    BRECCIA_TAKE(const Fd fd, open_file(path_, O_RDONLY));
    return data_end(fd, path_, size_);
  }

  static Status for_reading(const std::string& path) {
    return Status::IOError(path, "was opened for reading");
  }

 private:
  const std::string path_;
  std::byte* const image_;
  const std::uint64_t size_;
};

/// An flock: it belongs to the open file, so that a second lock of this process is refused as well,
/// and it ends with the process.
class FileLock final : public FolderLock {
 public:
  explicit FileLock(Fd fd) : fd_(std::move(fd)) {}

 private:
  const Fd fd_;
};

Result<std::unique_ptr<FolderLock>> lock_file(const std::string& dir, Fd fd, int how) {
  int failed = 0;
  do {
    failed = ::flock(fd.get(), how | LOCK_NB);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 && errno == EWOULDBLOCK) return folder_in_use(dir);
  if (failed != 0) return io_status("lock", dir + "/LOCK", errno);
  return std::unique_ptr<FolderLock>(std::make_unique<FileLock>(std::move(fd)));
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

Result<std::vector<std::string>> list_folder(const std::string& dir) {
  // Not std::filesystem's iterator: one that tells of errors ends the process where it finds no
  // memory.
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(dir.c_str()));
  if (folder == nullptr) return io_status("list folder", dir, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;  // readdir leaves it at the end
  }
  if (errno != 0) return io_status("list folder", dir, errno);
  return names;
}

class RealFiles final : public Files {
 public:
  RealFiles(Engine engine, bool force_buffered)
      : engine_(engine), force_buffered_(force_buffered) {}

  [[nodiscard]] Result<bool> create_dir(const std::string& dir) override {
    if (::mkdir(dir.c_str(), 0777) == 0) return true;
    const int error = errno;
    if (error == ENOENT) return Status::NotFound("create folder " + dir);
    if (error == EEXIST && std::filesystem::is_directory(dir)) return false;
    return io_status("create folder", dir, error);
  }

  /// The file stays when the lock goes: another may hold it by then.
  [[nodiscard]] Result<std::unique_ptr<FolderLock>> lock(const std::string& dir) override {
    BRECCIA_TAKE(Fd fd, open_file(dir + "/LOCK", O_CREAT | O_RDWR));
    return lock_file(dir, std::move(fd), LOCK_EX);
  }

  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    return list_folder(dir);
  }

  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> create(const std::string& path,
                                                            std::uint64_t bytes) override {
    BRECCIA_TAKE(Fd fd, open_file(path, O_CREAT | O_EXCL | O_RDWR));
    if (medium_for(folder_above(path)) == Medium::kTmpfs) base::make_huge_pages(fd.get(), bytes);
    const Status status = reserve_space(fd, path, bytes);
    if (status.ok()) {
      auto file = make(path, std::move(fd));
      BRECCIA_ASSERT(!file.ok() || file.value()->size() == bytes);
      if (file.ok()) return file;
      ::unlink(path.c_str());
      return file;
    }
    ::unlink(path.c_str());
    return status;
  }

  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> open(const std::string& path) override {
    BRECCIA_TAKE(const Fd fd, open_file(path, O_RDWR));
    BRECCIA_TAKE(auto file, open_as_medium(path, fd));
    const std::uint64_t opened = file->mapped() ? 0 : std::min(kOpenedBytes, file->size());
    BRECCIA_TRY(read_range(fd, path, file->image(), 0, opened));
    return file;
  }

  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    BRECCIA_ASSERT(folder_above(from) == folder_above(to));  // else one sync_dir() is not enough
    if (::rename(from.c_str(), to.c_str()) != 0) return io_status("rename", from, errno);
    return Status::OK();
  }

  [[nodiscard]] Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return io_status("remove", path, errno);
    return Status::OK();
  }

  [[nodiscard]] Status sync_dir(const std::string& dir) override {
    // Whoever may not read a folder may still have made something in it.
    if (::access(dir.c_str(), R_OK) != 0 && errno == EACCES) {
      return Status::NotSupported("sync folder " + dir, "this user may not read it");
    }
    BRECCIA_TAKE(const Fd fd, open_file(dir, O_RDONLY | O_DIRECTORY));
    if (::fsync(fd.get()) != 0) return io_status("sync folder", dir, errno);
    return Status::OK();
  }

  [[nodiscard]] std::shared_ptr<Files> for_looking() override { return read_only_files(); }

 private:
  /// A file that was just created, awake.
  Result<std::unique_ptr<SegmentFile>> make(const std::string& path, Fd fd) {
    BRECCIA_TAKE(auto file, open_as_medium(path, fd));
    // Nobody will sync a mapped file: its length becomes durable here.
    if (file->mapped()) {
      if (::fsync(fd.get()) != 0) return io_status("sync", path, errno);
    } else {
      static_cast<BufferedFile*>(file.get())->wake(std::move(fd));
    }
    return file;
  }

  Result<std::unique_ptr<SegmentFile>> open_as_medium(const std::string& path, const Fd& fd) {
    BRECCIA_TAKE(const struct stat found, about(fd, path));
    const std::uint64_t bytes = size_of(found);
    const Medium medium = medium_for(folder_above(path));
    if (medium == Medium::kDax) {
      BRECCIA_TAKE(auto region, pmem::map_dax_file(fd.get()));
      return std::unique_ptr<SegmentFile>(std::make_unique<DaxFile>(std::move(region)));
    }
    if (medium == Medium::kTmpfs) {
      BRECCIA_TAKE(std::byte* const image,
                   base::map_file(fd.get(), path, bytes, PROT_READ | PROT_WRITE));
      return std::unique_ptr<SegmentFile>(std::make_unique<TmpfsFile>(path, image, bytes));
    }
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    BRECCIA_TAKE(std::byte* const image, map(path, bytes, kFlags, -1));
    return std::unique_ptr<SegmentFile>(
        std::make_unique<BufferedFile>(path, found, image, writer()));
  }

  /// One ring for all files: it takes a descriptor, and locked memory.
  std::shared_ptr<Writer> writer() {
    const std::lock_guard lock(mutex_);
    if (writer_ == nullptr && engine_ == Engine::kRing) writer_ = make_ring_writer();
    if (writer_ == nullptr) writer_ = make_pwrite_writer();
    return writer_;
  }

  /// Asked once a folder: probing for DAX makes a file.
  Medium medium_for(const std::string& dir) {
    const std::lock_guard lock(mutex_);
    if (dir != medium_dir_) {
      medium_dir_ = dir;
      medium_ = force_buffered_ ? Medium::kBuffered : medium_of(dir);
    }
    return medium_;
  }

  const Engine engine_;
  const bool force_buffered_;
  std::mutex mutex_;  // of all below
  std::shared_ptr<Writer> writer_;
  std::string medium_dir_;
  Medium medium_ = Medium::kBuffered;
};

class ReadOnlyFiles final : public Files {
 public:
  [[nodiscard]] Result<bool> create_dir(const std::string& dir) override {
    return ReadOnlyFile::for_reading(dir);
  }

  [[nodiscard]] Result<std::unique_ptr<FolderLock>> lock(const std::string& dir) override {
    const std::string path = dir + "/LOCK";
    // A folder without the file was never opened, or is a copy: nobody can hold it.
    if (!std::filesystem::exists(path)) return std::make_unique<FolderLock>();
    BRECCIA_TAKE(Fd fd, open_file(path, O_RDONLY));
    return lock_file(dir, std::move(fd), LOCK_SH);
  }

  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    if (!std::filesystem::exists(dir)) return std::vector<std::string>();
    return list_folder(dir);
  }

  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> open(const std::string& path) override {
    BRECCIA_TAKE(const Fd fd, open_file(path, O_RDONLY));
    BRECCIA_TAKE(const struct stat found, about(fd, path));
    const std::uint64_t bytes = size_of(found);
    BRECCIA_TAKE(std::byte* const image, map(path, bytes, MAP_PRIVATE, fd.get()));
    return std::unique_ptr<SegmentFile>(std::make_unique<ReadOnlyFile>(path, image, bytes));
  }

  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> create(const std::string& path,
                                                            std::uint64_t) override {
    return ReadOnlyFile::for_reading(path);
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string&) override {
    return ReadOnlyFile::for_reading(from);
  }
  [[nodiscard]] Status remove(const std::string& path) override {
    return ReadOnlyFile::for_reading(path);
  }
  [[nodiscard]] Status sync_dir(const std::string& dir) override {
    return ReadOnlyFile::for_reading(dir);
  }
  [[nodiscard]] std::shared_ptr<Files> for_looking() override {
    return std::make_shared<ReadOnlyFiles>();
  }
};

}  // namespace

Medium medium_of(const std::string& dir) {
  if (lies_in_memory(dir)) return Medium::kTmpfs;
  return pmem::supports_dax(dir) ? Medium::kDax : Medium::kBuffered;
}

std::shared_ptr<Files> real_files_with(Engine engine, bool force_buffered) {
  return std::make_shared<RealFiles>(engine, force_buffered);
}

std::string folder_above(const std::string& path) {
  const std::size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) return "/";
  const std::size_t slash = path.find_last_of('/', last);
  if (slash == std::string::npos) return ".";
  const std::size_t end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

bool lies_in_memory(const std::string& dir) {
  struct statfs about;
  std::string found = dir;
  while (::statfs(found.c_str(), &about) != 0) {
    if (errno != ENOENT || found == "/" || found == ".") return false;
    found = folder_above(found);
  }
  return about.f_type == TMPFS_MAGIC;
}

Status folder_in_use(const std::string& dir) {
  return Status::IOError(
      dir + ": another open store keeps its log here",
      "Close that store, or set Options::wal_dir to a folder of this one's own.");
}

std::shared_ptr<Files> read_only_files() { return std::make_shared<ReadOnlyFiles>(); }

std::shared_ptr<Files> real_files() { return real_files_with(Engine::kRing, false); }

const char* io_engine() { return make_ring_writer() != nullptr ? "io_uring" : "pwrite"; }

}  // namespace breccia::wal
