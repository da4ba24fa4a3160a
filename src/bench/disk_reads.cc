#include "bench/disk_reads.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/random.h"

namespace breccia::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPageBytes = 4096;
/// On their way at once, of each thread.
constexpr unsigned kDepth = 128;
constexpr std::chrono::milliseconds kTime{800};

/// One thread's reads.
class Reads {
 public:
  Reads(int file, std::uint64_t pages, std::uint64_t seed)
      : file_(file),
        pages_(pages),
        random_(seed),
        room_(static_cast<char*>(std::aligned_alloc(kPageBytes, kDepth * kPageBytes))) {
    is_ready_ = room_ != nullptr && io_uring_queue_init(kDepth, &ring_, 0) == 0;
  }
  ~Reads() {
    if (is_ready_) io_uring_queue_exit(&ring_);
    // Where a ring failed, the kernel may still write what it was asked for.
    if (on_their_way_ == 0) std::free(room_);
  }
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  /// Pages that were read, in so many seconds; none: it cannot be done.
  double per_s() {
    if (!is_ready_) return 0;
    for (unsigned slot = 0; slot < kDepth; ++slot) ask(slot);
    const Clock::time_point begin = Clock::now();
    while (is_right_ && Clock::now() - begin < kTime) take(/*asks_on=*/true);
    const double rate =
        static_cast<double>(read_) / std::chrono::duration<double>(Clock::now() - begin).count();
    while (is_ready_ && on_their_way_ > 0) take(/*asks_on=*/false);
    return is_right_ ? rate : 0;
  }

 private:
  void ask(unsigned slot) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    BRECCIA_ASSERT(entry != nullptr);  // as many as there are slots
    const std::uint64_t page = random_.below(pages_);
    io_uring_prep_read(entry, file_, room_ + slot * kPageBytes, kPageBytes, page * kPageBytes);
    io_uring_sqe_set_data64(entry, slot);
    ++on_their_way_;
  }

  /// Waits for some.
  void take(bool asks_on) {
    const int taken = io_uring_submit_and_wait(&ring_, std::min(on_their_way_, kDepth / 4));
    if (taken < 0 && taken != -EINTR) {
      io_uring_queue_exit(&ring_);  // ends what is on its way
      is_ready_ = is_right_ = false;
      return;
    }
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(&ring_, &done) == 0) {
      const auto slot = static_cast<unsigned>(io_uring_cqe_get_data64(done));
      is_right_ = is_right_ && done->res == static_cast<int>(kPageBytes);
      io_uring_cqe_seen(&ring_, done);
      --on_their_way_;
      ++read_;
      if (asks_on) ask(slot);
    }
  }

  const int file_;
  const std::uint64_t pages_;
  base::Random random_;
  char* const room_;
  io_uring ring_{};
  bool is_ready_ = false;
  bool is_right_ = true;
  unsigned on_their_way_ = 0;
  std::uint64_t read_ = 0;
};

}  // namespace

Result<double> direct_reads_per_s(int file, std::uint64_t bytes) {
  if (bytes < kPageBytes) return 0.0;
  if (::fdatasync(file) != 0) return Status::IOError("cannot sync a file to be read");
  const int direct =
      ::open(fmt::format("/proc/self/fd/{}", file).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct < 0) return 0.0;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<double> rates(cores);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < cores; ++i) {
    threads.emplace_back([&, i] { rates[i] = Reads(direct, bytes / kPageBytes, i + 1).per_s(); });
  }
  double sum = 0;
  for (unsigned i = 0; i < cores; ++i) {
    threads[i].join();
    sum += rates[i];
  }
  ::close(direct);
  return sum;
}

}  // namespace breccia::bench
