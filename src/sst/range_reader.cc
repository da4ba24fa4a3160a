#include "sst/range_reader.h"

#include <fmt/format.h>
#include <liburing.h>
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
  return {range.file, range.offset + bytes, range.bytes - bytes, range.to + bytes, range.path};
}

}  // namespace

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

/// An io_uring, and the pieces that are on their way through it.
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
  /// Whether it cannot be used any more; nothing is on its way then.
  [[nodiscard]] bool is_broken() const { return is_broken_; }

  Status read(std::span<const FileRange> ranges) {
    Status first;
    for (const FileRange& range : ranges) {
      for (std::uint64_t at = 0; at < range.bytes && first.ok(); at += kPieceBytes) {
        FileRange piece = behind(range, at);
        piece.bytes = std::min(piece.bytes, kPieceBytes);
        while (free_count_ == 0 && first.ok()) first = take_one();
        if (first.ok()) first = submit(piece);
      }
    }
    // Also behind an error: what is on its way writes to memory of the caller's.
    while (free_count_ < kDepth) {
      Status one = take_one();
      if (first.ok()) first = std::move(one);
    }
    return first;
  }

 private:
  Status submit(const FileRange& piece) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    BRECCIA_ASSERT(entry != nullptr && free_count_ > 0);  // as deep as there are slots
    const unsigned slot = free_[--free_count_];
    piece_[slot] = piece;
    io_uring_prep_read(entry, piece.file, piece.to, static_cast<unsigned>(piece.bytes),
                       piece.offset);
    io_uring_sqe_set_data64(entry, slot);
    int count = 0;
    do {
      count = io_uring_submit(&ring_);
    } while (count == -EINTR || count == -EAGAIN || count == -EBUSY);
    if (count == 1) return Status::OK();
    free_[free_count_++] = slot;
    is_broken_ = true;  // the piece still waits in it
    return read_error(piece, count < 0 ? -count : EIO);
  }

  /// Waits for a piece. One that was cut short, or told to try again, is read by this thread.
  Status take_one() {
    io_uring_cqe* done = nullptr;
    int error = 0;
    do {
      error = io_uring_wait_cqe(&ring_, &done);
    } while (error == -EINTR || error == -EAGAIN);
    BRECCIA_ASSERT(error == 0);  // nothing else happens to who waits
    const std::uint64_t slot = io_uring_cqe_get_data64(done);
    const int result = done->res;
    io_uring_cqe_seen(&ring_, done);
    BRECCIA_ASSERT(slot < kDepth && free_count_ < kDepth);
    free_[free_count_++] = static_cast<unsigned>(slot);
    const FileRange& piece = piece_[slot];
    if (result == -EINTR || result == -EAGAIN) return read_range(piece);
    if (result < 0) return read_error(piece, -result);
    return read_range(behind(piece, static_cast<std::uint64_t>(result)));
  }

  io_uring ring_{};
  const bool is_ready_;
  bool is_broken_ = false;
  std::array<FileRange, kDepth> piece_;
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
  for (const FileRange& range : ranges) bytes += range.bytes;
  if (ring_ != nullptr && bytes > kPieceBytes) {
    Status status = ring_->read(ranges);
    if (!ring_->is_broken()) return status;
    ring_.reset();
  }
  for (const FileRange& range : ranges) BRECCIA_TRY(read_range(range));
  return Status::OK();
}

}  // namespace breccia::sst
