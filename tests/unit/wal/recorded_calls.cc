#include "recorded_calls.h"

#include <fcntl.h>
#include <libpmem2.h>
#include <liburing.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>

#include "base/assert.h"
#include "wal/files.h"

namespace breccia::testing {

namespace {

std::atomic<RecordedCalls*> watcher{nullptr};

std::string path_of(int descriptor) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t bytes = ::readlink(link.c_str(), path, sizeof path);
  return bytes < 0 ? "" : std::string(path, static_cast<std::size_t>(bytes));
}

}  // namespace

RecordedCalls::RecordedCalls(std::string folder) : folder_(std::move(folder)) {
  RecordedCalls* none = nullptr;
  BRECCIA_ASSERT(watcher.compare_exchange_strong(none, this));
}

RecordedCalls::~RecordedCalls() { watcher.store(nullptr); }

bool RecordedCalls::is_mine(const std::string& path) const {
  return path == folder_ || path.starts_with(folder_ + "/");
}

/// What recovery would remove, and the lock's file, may go with a power cut.
bool RecordedCalls::is_unfinished(const std::string& path) {
  return path.ends_with(".new") || path.ends_with("/LOCK");
}

std::vector<std::string> RecordedCalls::unsynced() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const auto& [inode, file] : unsynced_bytes_) {
    if (!is_unfinished(file.path)) found.push_back("bytes of " + file.path);
  }
  for (const auto& [folder, names] : unsynced_names_) {
    for (const std::string& name : names) {
      if (!is_unfinished(name)) found.push_back("name of " + name);
    }
  }
  return found;
}

std::vector<std::string> RecordedCalls::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

bool RecordedCalls::flushed(const std::byte* at, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto from = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t to = from + bytes;
  Ranges ranges = fenced_;
  std::sort(ranges.begin(), ranges.end());
  for (const auto& [begin, end] : ranges) {
    if (begin <= from && from < end) from = end;
  }
  return from >= to;
}

void RecordedCalls::forget_flushes() {
  const std::lock_guard lock(mutex_);
  flushes_.clear();
  fenced_.clear();
}

void RecordedCalls::wrote(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  struct stat about;
  const std::string path = path_of(descriptor);
  if (!is_mine(path) || ::fstat(descriptor, &about) != 0) return;
  if (about.st_nlink == 0) return;  // A file without a name is gone with its process.
  const std::lock_guard lock(mutex_);
  Unsynced& file = unsynced_bytes_[{about.st_dev, about.st_ino}];
  file.path = path;
  file.head = file.head || offset < kHeadBytes;
  file.rest = file.rest || offset >= kHeadBytes || bytes > kHeadBytes - offset;
}

void RecordedCalls::synced_head(int descriptor) {
  struct stat about;
  if (!is_mine(path_of(descriptor)) || ::fstat(descriptor, &about) != 0) return;
  const std::lock_guard lock(mutex_);
  const auto file = unsynced_bytes_.find({about.st_dev, about.st_ino});
  if (file == unsynced_bytes_.end()) return;
  file->second.head = false;
  file->second.head_alone = true;
  if (!file->second.rest) unsynced_bytes_.erase(file);
}

void RecordedCalls::synced(int descriptor) {
  struct stat about;
  const std::string path = path_of(descriptor);
  if (!is_mine(path) || ::fstat(descriptor, &about) != 0) return;
  const std::lock_guard lock(mutex_);
  if (S_ISDIR(about.st_mode)) {
    unsynced_names_.erase(path);
  } else {
    unsynced_bytes_.erase({about.st_dev, about.st_ino});
  }
}

void RecordedCalls::named(const std::string& path) {
  if (!is_mine(path)) return;
  const std::lock_guard lock(mutex_);
  unsynced_names_[wal::folder_above(path)].insert(path);
}

void RecordedCalls::renames(const std::string& from, const std::string& to) {
  struct stat about;
  if (!is_mine(from) || ::stat(from.c_str(), &about) != 0) return;
  const std::lock_guard lock(mutex_);
  const auto found = unsynced_bytes_.find({about.st_dev, about.st_ino});
  if (found != unsynced_bytes_.end()) {
    Unsynced& file = found->second;
    file.path = to;
    const bool is_segment = file.head_alone && !file.head;
    if (is_segment && !is_unfinished(to)) {
      unsynced_bytes_.erase(found);
    } else if (!is_unfinished(to)) {
      faults_.push_back(from + " becomes " + to + " with unsynced bytes");
    }
  }
  unsynced_names_[wal::folder_above(from)].erase(from);
}

void RecordedCalls::removed(const std::string& path) {
  struct stat about;
  if (!is_mine(path) || ::stat(path.c_str(), &about) != 0) return;
  const std::lock_guard lock(mutex_);
  unsynced_bytes_.erase({about.st_dev, about.st_ino});
  unsynced_names_[wal::folder_above(path)].erase(path);
}

void RecordedCalls::flush(const void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  flushes_.emplace_back(begin, begin + bytes);
}

void RecordedCalls::fence() {
  const std::lock_guard lock(mutex_);
  fenced_.insert(fenced_.end(), flushes_.begin(), flushes_.end());
  flushes_.clear();
}

}  // namespace breccia::testing

// ---- the wrapped calls -------------------------------------------------------------------------

using breccia::testing::watcher;

extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_mkdir(const char* path, mode_t mode);
int __real_rename(const char* from, const char* to);
int __real_unlink(const char* path);
int __real_ftruncate(int file, off_t bytes);
int __real_posix_fallocate(int file, off_t offset, off_t bytes);
ssize_t __real_pwrite(int file, const void* from, size_t bytes, off_t offset);
ssize_t __real_pwritev2(int file, const iovec* ranges, int count, off_t offset, int flags);
int __real_fsync(int file);
int __real_fdatasync(int file);
int __real_io_uring_submit_and_wait(io_uring* ring, unsigned wait);
pmem2_flush_fn __real_pmem2_get_flush_fn(pmem2_map* map);
pmem2_drain_fn __real_pmem2_get_drain_fn(pmem2_map* map);

int __wrap_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = has_mode ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const bool is_new = (flags & O_CREAT) != 0 && ::access(path, F_OK) != 0;
  const int file = __real_open(path, flags, mode);
  if (file >= 0 && is_new && watcher != nullptr) watcher.load()->named(path);
  return file;
}

int __wrap_mkdir(const char* path, mode_t mode) {
  const int result = __real_mkdir(path, mode);
  if (result == 0 && watcher != nullptr) watcher.load()->named(path);
  return result;
}

int __wrap_rename(const char* from, const char* to) {
  if (watcher != nullptr) watcher.load()->renames(from, to);
  const int result = __real_rename(from, to);
  if (result == 0 && watcher != nullptr) watcher.load()->named(to);
  return result;
}

int __wrap_unlink(const char* path) {
  if (watcher != nullptr) watcher.load()->removed(path);
  return __real_unlink(path);
}

int __wrap_ftruncate(int file, off_t bytes) {
  if (watcher != nullptr) watcher.load()->wrote(file);
  return __real_ftruncate(file, bytes);
}

int __wrap_posix_fallocate(int file, off_t offset, off_t bytes) {
  if (watcher != nullptr) watcher.load()->wrote(file);
  return __real_posix_fallocate(file, offset, bytes);
}

ssize_t __wrap_pwrite(int file, const void* from, size_t bytes, off_t offset) {
  if (watcher != nullptr) watcher.load()->wrote(file, static_cast<std::uint64_t>(offset), bytes);
  return __real_pwrite(file, from, bytes, offset);
}

ssize_t __wrap_pwritev2(int file, const iovec* ranges, int count, off_t offset, int flags) {
  if (watcher == nullptr) return __real_pwritev2(file, ranges, count, offset, flags);
  std::uint64_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += ranges[i].iov_len;
  const auto at = static_cast<std::uint64_t>(offset);
  watcher.load()->wrote(file, at, bytes);
  const ssize_t result = __real_pwritev2(file, ranges, count, offset, flags);
  const bool is_synced = result == static_cast<ssize_t>(bytes) && (flags & RWF_DSYNC) != 0;
  if (is_synced && at + bytes <= 4096) watcher.load()->synced_head(file);
  return result;
}

int __wrap_fsync(int file) {
  const int result = __real_fsync(file);
  if (result == 0 && watcher != nullptr) watcher.load()->synced(file);
  return result;
}

int __wrap_fdatasync(int file) {
  const int result = __real_fdatasync(file);
  if (result == 0 && watcher != nullptr) watcher.load()->synced(file);
  return result;
}

int __wrap_io_uring_submit_and_wait(io_uring* ring, unsigned wait) {
  const io_uring_sq& queue = ring->sq;
  for (unsigned at = queue.sqe_head; watcher != nullptr && at != queue.sqe_tail; ++at) {
    const io_uring_sqe& write = queue.sqes[at & *queue.kring_mask];
    watcher.load()->wrote(write.fd, write.off, write.len);
  }
  return __real_io_uring_submit_and_wait(ring, wait);
}

static pmem2_flush_fn real_flush = nullptr;
static pmem2_drain_fn real_drain = nullptr;

static void recorded_flush(const void* at, size_t bytes) {
  if (watcher != nullptr) watcher.load()->flush(at, bytes);
  real_flush(at, bytes);
}

static void recorded_drain() {
  real_drain();
  if (watcher != nullptr) watcher.load()->fence();
}

pmem2_flush_fn __wrap_pmem2_get_flush_fn(pmem2_map* map) {
  real_flush = __real_pmem2_get_flush_fn(map);
  return recorded_flush;
}

pmem2_drain_fn __wrap_pmem2_get_drain_fn(pmem2_map* map) {
  real_drain = __real_pmem2_get_drain_fn(map);
  return recorded_drain;
}

}  // extern "C"
