#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace breccia::ordered {

/// How writers are slowed down as room in the log gets short, so that they need not stop. As long
/// as half of it is free they are not; behind that they share what is left over the time until the
/// flush under way should end: as long as such a flush took so far, or, when that is nearly over,
/// as long again as it has been going on. So writers come to a full log only if a flush takes
/// several times as long as others did.
///
/// Threads one at a time.
/// Source  RocksDB (delayed writes). Deviation: the rate is that of flushes, not a setting.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  /// `bytes_max`: of the log, at which writers stop.
  explicit Pace(std::uint64_t bytes_max) : half_(static_cast<double>(bytes_max) / 2) {}

  /// A flush begins that will give back so many bytes.
  void note_begun(std::uint64_t bytes, Clock::time_point now) {
    flushing_ = static_cast<double>(bytes);
    begun_ = now;
  }
  /// It has ended, and whether it has given them back. Of few bytes it says nothing: what it takes
  /// for them is mostly what any flush takes.
  void note_ended(bool flushed, Clock::time_point now) {
    next_ = Clock::time_point();
    const double seconds = Seconds(now - begun_).count();
    if (flushed && flushing_ >= half_ / 2 && seconds > 0) {
      const double rate = flushing_ / seconds;
      rate_ = rate_ > 0 ? (rate_ + rate) / 2 : rate;
    }
    flushing_ = 0;
  }

  /// When a write of `bytes` may go on, if so many are in use: now, or its turn behind others, but
  /// never much later: not all who were told a turn wait for it.
  Clock::time_point turn(std::uint64_t bytes, std::uint64_t in_use, Clock::time_point now) {
    if (lets_on(in_use)) return now;
    const double left = std::max(2 * half_ - static_cast<double>(in_use), 1.0);
    const double share = std::min(static_cast<double>(bytes) / left, 1.0);
    const Seconds taken = share * until_end(in_use, now);
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
  using Seconds = std::chrono::duration<double>;

  /// Until half of the log is free again: when the flush under way ends, or, where that gives too
  /// little back, one behind it that begins with all the rest.
  [[nodiscard]] Seconds until_end(std::uint64_t in_use, Clock::time_point now) const {
    const Seconds since = flushing_ > 0 ? Seconds(now - begun_) : Seconds(0);
    const double rest = static_cast<double>(in_use) - flushing_;
    const Seconds ends = std::max(taken_by(flushing_) - since, since * kOverdue);
    return rest > half_ ? ends + taken_by(rest) : ends;
  }
  [[nodiscard]] Seconds taken_by(double bytes) const {
    return rate_ > 0 ? Seconds(bytes / rate_) : Seconds(0);
  }

  /// Of a flush that goes on so long that its end is not known any more: how much longer it is
  /// thought to take, by how long it took so far.
  static constexpr double kOverdue = 1.25;
  /// Turns that come sooner are not waited for; who takes one makes others wait that much longer.
  static constexpr auto kStep = std::chrono::microseconds(200);
  static constexpr Seconds kLongest{0.5};

  const double half_;
  double rate_ = 0;      // at which flushes give bytes back, a second; 0: not known
  double flushing_ = 0;  // bytes that a flush under way will give back; 0: there is none
  Clock::time_point begun_;
  Clock::time_point next_;
};

}  // namespace breccia::ordered
