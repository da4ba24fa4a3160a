#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "unit/wal/records.h"
#include "wal/log.h"
#include "wal/sim_files.h"

namespace breccia::wal {
namespace {

using testing::expected;
using testing::put_frame;
using testing::random_records;
using testing::Records;
using testing::Replayed;

enum class Crash { kKill, kPowerCut };

/// A log under a script that ends in a crash, and the frames that must or may survive it.
class Story {
 public:
  Story(SimKind kind, std::uint64_t seed) : disk_(kind), random_(seed) {
    options_.dir = "log";
    options_.files = disk_.files();
    options_.roll_bytes = 500;
    options_.prepare_ahead = false;
  }

  SimDisk& disk() { return disk_; }

  /// Opens the log and checks what it replays. False if the power failed.
  bool open() {
    Replayed replayed;
    auto opened = Log::open(options_, from_, replayed.sink(), &replayed.recovery);
    if (!opened.ok()) {
      EXPECT_TRUE(disk_.failed()) << opened.status().ToString();
      return false;
    }
    log_ = opened.take();
    check(replayed);
    return !::testing::Test::HasFailure();
  }

  /// Random batches, commits, releases and reopenings until the power fails or `count` are done.
  bool play(int count) {
    for (int index = 0; index < count; ++index) {
      const std::uint64_t action = random_.below(16);
      if (action == 0) {
        log_.reset();
        at_least_ = written_;
        if (!open()) return false;
      } else if (action <= 2) {
        if (!release()) return false;
      } else if (!write_batch()) {
        return false;
      }
    }
    return true;
  }

  void crash(Crash crash, std::uint64_t seed) {
    log_.reset();
    if (crash == Crash::kKill) {
      disk_.kill();
      at_least_ = std::max(synced_, written_);
    } else {
      at_least_ = synced_;
      disk_.power_cut(seed);
    }
  }

 private:
  bool write_batch() {
    const Records records = random_records(&random_, random_.below(7));
    Result<Frame> frame = put_frame(log_.get(), records, random_.one_in(2));
    if (!frame.ok()) return false;
    frames_.push_back(expected(frame.value(), records));
    if (random_.one_in(3)) return true;
    const bool sync = random_.one_in(2);
    if (!log_->commit(log_->end(), sync).ok()) return false;
    written_ = frames_.size();
    if (sync) synced_ = frames_.size();
    return true;
  }

  /// Moves `from_` to some frame's start or the log's end, as a flush would: also past frames that
  /// were never written.
  bool release() {
    if (frames_.empty()) return true;
    const std::size_t index = random_.below(frames_.size() + 1);
    const std::uint64_t to = index == frames_.size() ? log_->end() : frames_[index].position;
    from_ = std::max(from_, to);
    return log_->release_below(from_).ok();
  }

  [[nodiscard]] bool needed(const Replayed::One& frame) const {
    return frame.position + frame.bytes.size() > from_;
  }

  /// What came back must be the needed frames from the first on, without a gap, as far as they go
  /// and at least as far as was promised.
  void check(const Replayed& replayed) {
    std::size_t first = 0;
    while (first < frames_.size() && !needed(frames_[first])) ++first;
    const std::size_t count = replayed.frames.size();
    ASSERT_LE(first + count, frames_.size());
    ASSERT_TRUE(std::equal(replayed.frames.begin(), replayed.frames.end(),
                           frames_.begin() + static_cast<std::ptrdiff_t>(first)));
    ASSERT_GE(first + count, std::min(at_least_, frames_.size()));
    frames_.resize(first + count);
    synced_ = written_ = frames_.size();
    ASSERT_GE(log_->end(), from_);
  }

  SimDisk disk_;
  base::Random random_;
  LogOptions options_;
  std::unique_ptr<Log> log_;
  std::vector<Replayed::One> frames_;
  std::size_t written_ = 0;   // so many frames were acknowledged as written
  std::size_t synced_ = 0;    // and so many as synced
  std::size_t at_least_ = 0;  // so many must come back
  std::uint64_t from_ = 0;
};

constexpr int kActions = 40;
constexpr int kActionsAfter = 8;

/// Plays a story whose power fails in step `step`, crashes, recovers, goes on, crashes again.
void play_and_crash(SimKind kind, Crash crash, std::uint64_t seed, std::uint64_t step) {
  SCOPED_TRACE("seed=" + std::to_string(seed) + " step=" + std::to_string(step));
  Story story(kind, seed);
  story.disk().fail_at(step, seed + step);
  if (story.open()) story.play(kActions);
  story.crash(crash, seed * 31 + step);
  // The recovery is cut short as well, a little later each time.
  story.disk().fail_at(story.disk().steps() + 1 + step % 7, seed + step);
  if (story.open()) story.play(kActionsAfter);
  story.crash(Crash::kPowerCut, seed * 37 + step);
  ASSERT_TRUE(story.open());
}

std::uint64_t steps_of(SimKind kind, std::uint64_t seed) {
  Story story(kind, seed);
  EXPECT_TRUE(story.open());
  EXPECT_TRUE(story.play(kActions));
  return story.disk().steps();
}

void crash_everywhere(SimKind kind, Crash crash, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::uint64_t steps = steps_of(kind, seed);
    for (std::uint64_t step = 1; step <= steps; ++step) {
      play_and_crash(kind, crash, seed, step);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Goal: a killed process loses no frame that was acknowledged as written; no half frame appears.
// Method: a script of batches, releases and reopenings is killed at every step, by seed.
// Mutation: committing ranges of a later segment before an earlier one's fails.
TEST(WalCrash, KillAtEveryStepBuffered) { crash_everywhere(SimKind::kBuffered, Crash::kKill, 2); }
TEST(WalCrash, KillAtEveryStepMapped) { crash_everywhere(SimKind::kMapped, Crash::kKill, 1); }

// Goal: a power cut loses no synced frame; what survives is a prefix; the log always opens.
// Method: the same with unsynced 512-byte blocks, 64-byte lines and folder changes lost by seed.
// Mutation: no sync of a new segment's header or folder fails; so does calling any intact frame
// behind a gap damage, and reusing a discarded file for the same positions.
TEST(WalCrash, PowerCutAtEveryStepBuffered) {
  crash_everywhere(SimKind::kBuffered, Crash::kPowerCut, 3);
}
TEST(WalCrash, PowerCutAtEveryStepMapped) {
  crash_everywhere(SimKind::kMapped, Crash::kPowerCut, 1);
}

}  // namespace
}  // namespace breccia::wal
