#include "wal/ring.h"

#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"

namespace breccia::wal {
namespace {

class PwriteWriter final : public Writer {
 public:
  [[nodiscard]] Status write(int fd, const std::byte* from, std::uint64_t offset,
                             std::uint64_t bytes, const std::string& path) override {
    BRECCIA_ASSERT(fd >= 0);
    while (bytes > 0) {
      const ssize_t written = ::pwrite(fd, from, bytes, static_cast<off_t>(offset));
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (written < 0) return io_status("write", path, errno);
      // Nothing written and no error: only a full medium does that.
      if (written == 0) return io_status("write", path, ENOSPC);
      BRECCIA_ASSERT(static_cast<std::uint64_t>(written) <= bytes);
      from += written;
      offset += static_cast<std::uint64_t>(written);
      bytes -= static_cast<std::uint64_t>(written);
    }
    return Status::OK();
  }
};

class RingWriter final : public Writer {
 public:
  RingWriter() : ready_(io_uring_queue_init(kRingDepth, &ring_, 0) == 0) {}
  ~RingWriter() override { drop_ring(); }
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  /// Before it is given to anybody.
  [[nodiscard]] bool ready() const { return ready_; }

  [[nodiscard]] Status write(int fd, const std::byte* from, std::uint64_t offset,
                             std::uint64_t bytes, const std::string& path) override {
    // One piece gains nothing from a ring.
    if (bytes <= kRingPieceBytes) return pwriter_.write(fd, from, offset, bytes, path);
    const std::lock_guard lock(mutex_);
    if (!ready_) return pwriter_.write(fd, from, offset, bytes, path);
    const Status status = write_rounds(fd, from, offset, bytes, path);
    // It may still have pieces of this call in flight, and their results belong to no other.
    if (!status.ok()) drop_ring();
    return status;
  }

 private:
  void drop_ring() {
    if (std::exchange(ready_, false)) io_uring_queue_exit(&ring_);
  }

  [[nodiscard]] Status write_rounds(int fd, const std::byte* from, std::uint64_t offset,
                                    std::uint64_t bytes, const std::string& path) {
    const std::uint64_t round_bytes = kRingDepth * kRingPieceBytes;
    for (std::uint64_t done = 0; done < bytes; done += round_bytes) {
      const std::uint64_t round = std::min(round_bytes, bytes - done);
      BRECCIA_TRY(write_round(fd, from + done, offset + done, round, path));
    }
    return Status::OK();
  }

  /// Submits up to kRingDepth pieces at once and waits for all of them.
  [[nodiscard]] Status write_round(int fd, const std::byte* from, std::uint64_t offset,
                                   std::uint64_t bytes, const std::string& path) {
    BRECCIA_ASSERT(ready_ && bytes > 0);
    unsigned pieces = 0;
    for (std::uint64_t at = 0; at < bytes; at += kRingPieceBytes, ++pieces) {
      io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
      BRECCIA_ASSERT(sqe != nullptr);  // A round is no longer than the ring.
      const auto length = static_cast<unsigned>(std::min(kRingPieceBytes, bytes - at));
      io_uring_prep_write(sqe, fd, from + at, length, offset + at);
      io_uring_sqe_set_data64(sqe, pieces);
    }
    BRECCIA_TRY(submit(pieces, path));
    std::array<int, kRingDepth> results;
    BRECCIA_TRY(collect(pieces, &results, path));
    BRECCIA_ASSERT(io_uring_cq_ready(&ring_) == 0);  // the next round's results are its own
    for (unsigned piece = 0; piece < pieces; ++piece) {
      const std::uint64_t at = piece * kRingPieceBytes;
      const std::uint64_t length = std::min(kRingPieceBytes, bytes - at);
      BRECCIA_TRY(finish_piece(results[piece], fd, from + at, offset + at, length, path));
    }
    return Status::OK();
  }

  [[nodiscard]] Status submit(unsigned pieces, const std::string& path) {
    for (unsigned submitted = 0; submitted < pieces;) {
      const int count = io_uring_submit_and_wait(&ring_, pieces - submitted);
      if (count == -EINTR || count == -EAGAIN || count == -EBUSY) continue;
      // Pieces of this call may be in flight, which write no more than they were told to: the log
      // does not use a file after an error.
      if (count < 0) return io_status("io_uring submit", path, -count);
      submitted += static_cast<unsigned>(count);
      BRECCIA_ASSERT(submitted <= pieces);
    }
    return Status::OK();
  }

  [[nodiscard]] Status collect(unsigned pieces, std::array<int, kRingDepth>* results,
                               const std::string& path) {
    for (unsigned seen = 0; seen < pieces;) {
      io_uring_cqe* cqe = nullptr;
      const int error = io_uring_wait_cqe(&ring_, &cqe);
      if (error == -EINTR || error == -EAGAIN) continue;
      if (error < 0) return io_status("io_uring wait", path, -error);
      const std::uint64_t piece = io_uring_cqe_get_data64(cqe);
      BRECCIA_ASSERT(piece < pieces);
      (*results)[piece] = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      ++seen;
    }
    return Status::OK();
  }

  /// A piece that was cut short or told to try again is finished the plain way.
  [[nodiscard]] Status finish_piece(int result, int fd, const std::byte* from, std::uint64_t offset,
                                    std::uint64_t bytes, const std::string& path) {
    if (result == -EINTR || result == -EAGAIN) result = 0;
    if (result < 0) return io_status("write", path, -result);
    const auto written = static_cast<std::uint64_t>(result);
    BRECCIA_ASSERT(written <= bytes);
    if (written == bytes) return Status::OK();
    return pwriter_.write(fd, from + written, offset + written, bytes - written, path);
  }

  PwriteWriter pwriter_;
  std::mutex mutex_;  // of the ring
  io_uring ring_;
  bool ready_;
};

}  // namespace

std::unique_ptr<Writer> make_pwrite_writer() { return std::make_unique<PwriteWriter>(); }

std::unique_ptr<Writer> make_ring_writer() {
  auto writer = std::make_unique<RingWriter>();
  if (!writer->ready()) return nullptr;
  return writer;
}

Status io_status(const char* what, const std::string& path, int error) {
  BRECCIA_ASSERT(error > 0);
  const bool is_full = error == ENOSPC || error == EDQUOT;
  Status status = is_full ? Status::NoSpace() : Status::IOError();
  base::as_memory_allows([&] {
    const std::string message = std::string(what) + " " + path;
    status = is_full ? Status::NoSpace(message, std::strerror(error))
                     : Status::IOError(message, std::strerror(error));
  });
  return status;
}

}  // namespace breccia::wal
