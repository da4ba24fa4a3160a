#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/bell.h"
#include "ordered/background/pace.h"
#include "ordered/parts.h"

namespace breccia::ordered {

/// Bytes of the log that a batch may take: claimed before it takes its place, given back with the
/// claim's end, when the log itself counts them.
class RoomClaim {
 public:
  RoomClaim(std::atomic<std::uint64_t>* claimed, std::uint64_t bytes)
      : claimed_(claimed), bytes_(bytes) {}
  RoomClaim(RoomClaim&& other) noexcept
      : claimed_(std::exchange(other.claimed_, nullptr)), bytes_(other.bytes_) {}
  RoomClaim& operator=(RoomClaim&&) = delete;
  ~RoomClaim() {
    if (claimed_ != nullptr) claimed_->fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t>* claimed_;
  std::uint64_t bytes_;
};

/// What memory may hold before it is flushed: bytes of the log, runs, range deletions. Holds
/// writers back while there is no room for more (write stalls), and slows them down before, so that
/// they come to that as late as what flushes give back allows.
///
/// Threads any.
class Room {
 public:
  /// Writers wait above `log_bytes_max`, for `wait_us_max` if they do not say; from half of it a
  /// flush is due.
  Room(const StoreParts& parts, std::uint64_t log_bytes_max, std::uint64_t wait_us_max)
      : parts_(parts),
        log_bytes_max_(log_bytes_max),
        wait_us_max_(wait_us_max),
        pace_(log_bytes_max) {}

  /// Waits until a write of `bytes` has room.
  /// Errors  Incomplete: none within `wait_us_max`; the store's fault; ShutdownInProgress.
  Result<RoomClaim> claim(std::uint64_t bytes, std::uint64_t wait_us_max);
  [[nodiscard]] std::uint64_t wait_us_max() const { return wait_us_max_; }
  /// Rung when there may be something to flush, or to merge.
  [[nodiscard]] base::Bell& flush_bell() { return flush_bell_; }
  [[nodiscard]] base::Bell& merge_bell() { return merge_bell_; }
  /// To be called when a family changed and the fullest one has `runs` now, all together
  /// `tombstones` range deletions.
  void note_view(std::size_t runs, std::size_t tombstones);
  /// True if searches look at so many runs that writers should help to merge them.
  [[nodiscard]] bool is_crowded() const;
  /// True if a flush is due for the log's bytes or for range deletions.
  [[nodiscard]] bool is_short() const;
  /// A merge or a flush has ended: who waits looks again.
  void look_again();
  /// A flush begins that will give back so many bytes of the log; it has ended, and whether it has.
  void note_flush_begun(std::uint64_t bytes);
  void note_flush_ended(bool flushed);
  /// Nobody waits any more.
  void stop();

 private:
  bool claim_if(std::uint64_t bytes, std::uint64_t needed, std::uint64_t bytes_max);
  Result<RoomClaim> wait(std::uint64_t bytes, std::uint64_t wait_us_max);
  /// Waits until a write of `bytes` may go on among those that are slowed down.
  void wait_for_turn(std::uint64_t bytes, Pace::Clock::time_point deadline);
  void note_waiter(int more);
  /// What a write is told that found no room.
  Status refused(std::uint64_t wait_us_max);

  const StoreParts parts_;
  const std::uint64_t log_bytes_max_;
  const std::uint64_t wait_us_max_;
  base::Bell flush_bell_;
  base::Bell merge_bell_;

  std::atomic<std::uint64_t> claimed_{0};  // log bytes that writers are about to take
  std::atomic<std::size_t> runs_{0};
  std::atomic<std::size_t> tombstones_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  Pace pace_;
  std::mutex waiters_mutex_;
  int waiters_ = 0;  // writers that wait
};

}  // namespace breccia::ordered
