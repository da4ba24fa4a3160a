#include "sst/range_reader.h"

#include <fmt/format.h>
#include <liburing.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/assert.h"

namespace breccia::sst {

namespace {

/// Pieces that are on their way at once, and their size: a fast SSD needs both to be busy.
constexpr unsigned kDepth = 32;
constexpr std::uint64_t kPieceBytes = 256 << 10;

Status read_error(const FileRange& range, int error) {
  return Status::IOError(
      fmt::format("cannot read {} bytes at {} of {}", range.bytes, range.offset, *range.path),
      std::strerror(error));
}

/// What is behind the first `bytes` of a range.
FileRange behind(const FileRange& range, std::uint64_t bytes) {
  BRECCIA_ASSERT(bytes <= range.bytes);
  return {range.file,       range.offset + bytes, range.bytes - bytes,
          range.to + bytes, range.path,           range.is_in_memory};
}

}  // namespace

bool lies_in_memory(int file) {
  struct statfs system {};
  if (::fstatfs(file, &system) != 0) return false;
  return system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
}

Status read_range(const FileRange& range) {
  FileRange left = range;
  while (left.bytes > 0) {
    const ssize_t got = ::pread(left.file, left.to, left.bytes, static_cast<off_t>(left.offset));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return read_error(left, errno);
    if (got == 0) {
      return Status::Corruption(fmt::format("{} ends at {}", *left.path, left.offset),
                                fmt::format("{} more bytes were expected", left.bytes));
    }
    left = behind(left, static_cast<std::uint64_t>(got));
  }
  return Status::OK();
}

/// An io_uring, and the pieces that are on their way through it. Nothing in it throws: behind an
/// exception the kernel would write on.
class RangeReader::Ring {
 public:
  Ring() : is_ready_(io_uring_queue_init(kDepth, &ring_, 0) == 0) {
    for (unsigned slot = 0; slot < kDepth; ++slot) free_[slot] = slot;
  }
  ~Ring() {
    if (is_ready_) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] bool is_ready() const { return is_ready_; }

  /// Reads all of them, and says whether it has: a piece may have failed or been cut short.
  /// Nothing is on its way when it returns.
  bool read(std::span<const FileRange> ranges) noexcept {
    is_whole_ = true;
    for (const FileRange& range : ranges) {
      if (range.is_in_memory) continue;
      for (std::uint64_t at = 0; at < range.bytes && is_whole_; at += kPieceBytes) {
        if (free_count_ == 0) take_one();
        submit(range, at);
      }
    }
    while (free_count_ < kDepth) take_one();
    return is_whole_;
  }

 private:
  void submit(const FileRange& range, std::uint64_t at) {
    const FileRange piece = behind(range, at);
    const auto bytes = static_cast<unsigned>(std::min(piece.bytes, kPieceBytes));
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    BRECCIA_ASSERT(entry != nullptr && free_count_ > 0);  // as deep as there are slots
    const unsigned slot = free_[--free_count_];
    bytes_[slot] = bytes;
    io_uring_prep_read(entry, piece.file, piece.to, bytes, piece.offset);
    io_uring_sqe_set_data64(entry, slot);
    int count = 0;
    do {
      count = io_uring_submit(&ring_);
    } while (count == -EINTR || count == -EAGAIN || count == -EBUSY);
    if (count == 1) return;
    free_[free_count_++] = slot;
    is_whole_ = false;  // the piece still waits in it
  }

  void take_one() {
    io_uring_cqe* done = nullptr;
    int error = 0;
    do {
      error = io_uring_wait_cqe(&ring_, &done);
    } while (error == -EINTR || error == -EAGAIN);
    BRECCIA_ASSERT(error == 0);  // nothing else happens to who waits
    const std::uint64_t slot = io_uring_cqe_get_data64(done);
    BRECCIA_ASSERT(slot < kDepth && free_count_ < kDepth);
    if (done->res < 0 || static_cast<unsigned>(done->res) != bytes_[slot]) is_whole_ = false;
    io_uring_cqe_seen(&ring_, done);
    free_[free_count_++] = static_cast<unsigned>(slot);
  }

  io_uring ring_{};
  const bool is_ready_;
  bool is_whole_ = true;  // of the call at hand: no piece failed or was cut short
  std::array<unsigned, kDepth> bytes_;
  std::array<unsigned, kDepth> free_;
  unsigned free_count_ = kDepth;
};

RangeReader::RangeReader() : ring_(new (std::nothrow) Ring) {
  if (ring_ != nullptr && !ring_->is_ready()) ring_.reset();
}

RangeReader::~RangeReader() = default;

Status RangeReader::read(std::span<const FileRange> ranges) {
  // One piece gains nothing from a ring.
  std::uint64_t bytes = 0;
  for (const FileRange& range : ranges) bytes += range.is_in_memory ? 0 : range.bytes;
  bool is_read = false;
  if (ring_ != nullptr && bytes > kPieceBytes) {
    is_read = ring_->read(ranges);
    // Kernels refuse some requests alone; what is really wrong is so for the thread's own call,
    // too.
    if (!is_read) ring_.reset();
  }
  for (const FileRange& range : ranges) {
    if (!is_read || range.is_in_memory) BRECCIA_TRY(read_range(range));
  }
  return Status::OK();
}

}  // namespace breccia::sst
