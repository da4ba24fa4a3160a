#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace breccia::ordered {

/// How writers are slowed down as room in the log gets short, so that they need not stop: as long
/// as half of it is free they are not; at three quarters they go as fast as flushes give room back,
/// behind that ever more slowly. A flush that takes 1.6 times what others took ends before the log
/// is full.
///
/// Threads one at a time.
/// Source  RocksDB (delayed writes). Deviation: the rate is that of flushes so far, not a setting.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  /// `bytes_max`: of the log, at which writers stop.
  explicit Pace(std::uint64_t bytes_max) : half_(static_cast<double>(bytes_max) / 2) {}

  /// A flush has given back so many bytes in so much time. Of few it says nothing: what it takes
  /// for them is mostly what any flush takes.
  void note_flushed(std::uint64_t bytes, std::chrono::microseconds taken) {
    next_ = Clock::time_point();
    if (static_cast<double>(bytes) < half_ / 2 || taken.count() <= 0) return;
    const double rate = static_cast<double>(bytes) * 1e6 / static_cast<double>(taken.count());
    rate_ = rate_ > 0 ? (rate_ + rate) / 2 : rate;
  }

  /// When a write of `bytes` may go on, if so many are in use: now, or its turn behind others, but
  /// never much later: not all who were told a turn wait for it.
  Clock::time_point turn(std::uint64_t bytes, std::uint64_t in_use, Clock::time_point now) {
    const double full = static_cast<double>(in_use) / half_ - 1;  // of the second half
    if (rate_ <= 0 || lets_on(in_use)) return now;
    const double rate = rate_ * std::max((1 - full) / full, kLeast);
    const auto taken = std::chrono::duration<double>(static_cast<double>(bytes) / rate);
    const Clock::time_point turn = std::max(now, next_);
    next_ = std::min(turn + std::chrono::duration_cast<Clock::duration>(std::min(taken, kLongest)),
                     now + std::chrono::duration_cast<Clock::duration>(kLongest));
    return turn - now < kStep ? now : turn;
  }
  /// Whether nobody is slowed down if so many bytes are in use.
  [[nodiscard]] bool lets_on(std::uint64_t in_use) const {
    return static_cast<double>(in_use) <= half_;
  }

 private:
  /// Of the rate of flushes, what writers are left at least.
  static constexpr double kLeast = 0.25;
  /// Turns that come sooner are not waited for; who takes one makes others wait that much longer.
  static constexpr auto kStep = std::chrono::microseconds(200);
  static constexpr std::chrono::duration<double> kLongest{1};

  const double half_;
  double rate_ = 0;  // at which flushes give bytes back, a second; 0: not known
  Clock::time_point next_;
};

}  // namespace breccia::ordered
