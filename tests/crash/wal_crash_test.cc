#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/seeds.h"
#include "unit/wal/records.h"
#include "wal/log.h"
#include "wal/segment_pool.h"
#include "wal/sim/sim_files.h"

namespace breccia::wal {
namespace {

using testing::expected;
using testing::put_frame;
using testing::random_records;
using testing::Records;
using testing::Replayed;

/// What ends a process.
enum class Crash {
  kKill,
  kPowerCut,
  kFailure,      // a call fails without effect, or with a part of it; the process is started anew
  kLateFailure,  // a call fails after its work is done
};

/// How a log is run.
struct Setting {
  SimKind kind;
  std::size_t prepare_ahead;
  std::uint64_t keep_bytes;
};

/// A log under a script that ends in a crash, and the frames that must or may survive it.
class Story {
 public:
  Story(const Setting& setting, std::uint64_t seed) : disk_(setting.kind), random_(seed) {
    options_.dir = "log";
    options_.files = disk_.files();
    options_.roll_bytes = 500;
    options_.prepare_ahead = setting.prepare_ahead;
    options_.keep_bytes = setting.keep_bytes;
  }

  SimDisk& disk() { return disk_; }

  /// Ends what happens now in step `step` of the disk.
  void crash_at(std::uint64_t step, Crash crash, std::uint64_t seed) {
    crash_step_ = step;
    if (crash == Crash::kKill || crash == Crash::kPowerCut) {
      disk_.fail_at(step, seed);
    } else {
      disk_.fail_once(step, crash == Crash::kLateFailure, seed);
    }
  }

  /// Opens the log and checks what it replays. False if it met the crash.
  bool open() {
    Replayed replayed;
    auto opened = Log::open(options_, from_, replayed.sink(), &replayed.recovery);
    if (!opened.ok()) {
      EXPECT_TRUE(disk_.steps() >= crash_step_) << opened.status().ToString();
      return false;
    }
    log_ = opened.take();
    check(replayed);
    check_kept();
    return !::testing::Test::HasFailure();
  }

  /// Random batches, commits, releases, holds and reopenings until the crash or until `count` are
  /// done.
  bool play(int count) {
    for (int index = 0; index < count; ++index) {
      const std::uint64_t action = random_.below(18);
      bool goes_on = true;
      if (action == 0) {
        close();
        at_least_ = written_;
        goes_on = open();
      } else if (action <= 2) {
        goes_on = release();
      } else if (action <= 4) {
        hold();
      } else {
        goes_on = write_batch();
      }
      if (!goes_on) return false;
      wait_for_prepared();
    }
    return true;
  }

  void crash(Crash crash, std::uint64_t seed) {
    close();
    crash_step_ = ~std::uint64_t{0};
    if (crash == Crash::kPowerCut) {
      at_least_ = synced_;
      disk_.power_cut(seed);
    } else {
      disk_.kill();
      at_least_ = std::max(synced_, written_);
    }
  }

 private:
  void close() {
    log_.reset();
    hold_.reset();
  }

  bool write_batch() {
    const Records records = random_records(&random_, random_.below(7));
    Result<Frame> frame = put_frame(log_.get(), records, random_.one_in(2));
    if (!frame.ok()) return false;
    frames_.push_back(expected(frame.value(), records));
    if (random_.one_in(3)) return true;
    const bool sync = random_.one_in(2);
    if (!log_->commit(log_->end(), sync).ok()) return false;
    written_ = frames_.size();
    if (sync) note_synced();
    return true;
  }

  void note_synced() {
    synced_ = frames_.size();
    // Frames that were released before are not among those that a commit writes.
    const std::uint64_t begin = log_->table()->segments().front()->base;
    for (const Replayed::One& frame : frames_) {
      if (frame.position >= begin) durable_.insert(frame.position);
    }
  }

  /// Moves `from_` to some frame's start or the log's end, as a flush would: also past frames that
  /// were never written.
  bool release() {
    if (frames_.empty()) return true;
    const std::size_t index = random_.below(frames_.size() + 1);
    const std::uint64_t to = index == frames_.size() ? log_->end() : frames_[index].position;
    from_ = std::max(from_, to);
    if (!log_->release_below(from_).ok()) return false;
    check_kept();
    return true;
  }

  /// Makes, moves or ends a hold.
  void hold() {
    if (hold_ && random_.one_in(3)) {
      log_->remove_hold(hold_->id);
      hold_.reset();
      return;
    }
    const std::uint64_t oldest = std::max(log_->oldest(), hold_ ? hold_->position : 0);
    std::vector<std::uint64_t> places;
    for (const Replayed::One& frame : frames_) {
      if (frame.position >= oldest) places.push_back(frame.position);
    }
    if (places.empty()) return;
    const std::uint64_t position = places[random_.below(places.size())];
    if (hold_) {
      log_->move_hold(hold_->id, position);
      hold_->position = position;
    } else {
      hold_ = {log_->add_hold(position, ~std::uint64_t{0}), position};
    }
  }

  /// Goes on when the log's own thread has made the next segment, if it does: so that a script
  /// takes the same steps each time.
  void wait_for_prepared() {
    if (options_.prepare_ahead == 0 || log_ == nullptr) return;
    const SegmentPtr newest = log_->table()->segments().back();
    if (log_->end() - newest->base < options_.roll_bytes / 2) return;
    for (std::size_t i = 0; i < options_.prepare_ahead; ++i) {
      const std::uint64_t base = newest->end() + i * limits::kLogWindowBytes;
      const std::string next = options_.dir + "/" + segment_name(base);
      while (!disk_.is_durable(next) && disk_.steps() < crash_step_) std::this_thread::yield();
    }
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
    // Of those below, some were perhaps never written.
    const auto needed_from = frames_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto lost = std::remove_if(frames_.begin(), needed_from, [&](const Replayed::One& one) {
      return !durable_.contains(one.position);
    });
    frames_.resize(first + count);
    frames_.erase(lost, needed_from);
    written_ = frames_.size();
    note_synced();
    ASSERT_GE(log_->end(), from_);
  }

  /// Whoever follows the log finds each frame that was synced from the oldest kept one on, and from
  /// where a hold is.
  void check_kept() {
    const std::uint64_t oldest = log_->oldest();
    if (hold_) {
      ASSERT_LE(oldest, hold_->position);
    }
    for (const Replayed::One& frame : frames_) {
      if (frame.position < oldest || !durable_.contains(frame.position)) continue;
      const auto segment = log_->segment_at(frame.position);
      // The log's own thread may have met the power cut meanwhile.
      if (!segment.ok() && disk_.failed()) return;
      ASSERT_TRUE(segment.ok()) << segment.status().ToString();
      const std::byte* const image = segment.value()->file->image();
      const std::byte* const at = image + (frame.position - segment.value()->base);
      ASSERT_TRUE(std::equal(frame.bytes.begin(), frame.bytes.end(), at)) << frame.position;
    }
  }

  struct OwnHold {
    std::uint64_t id;
    std::uint64_t position;
  };

  SimDisk disk_;
  base::Random random_;
  LogOptions options_;
  std::uint64_t crash_step_ = ~std::uint64_t{0};
  std::unique_ptr<Log> log_;
  std::optional<OwnHold> hold_;
  std::vector<Replayed::One> frames_;
  std::set<std::uint64_t> durable_;  // positions of frames whose bytes a sync has covered
  std::size_t written_ = 0;          // so many frames were acknowledged as written
  std::size_t synced_ = 0;           // and so many as synced
  std::size_t at_least_ = 0;         // so many must come back
  std::uint64_t from_ = 0;
};

constexpr int kActions = 40;
constexpr int kActionsAfter = 8;

/// Plays a story that crashes in step `step`, recovers, goes on, crashes again.
void play_and_crash(const Setting& setting, Crash crash, std::uint64_t seed, std::uint64_t step) {
  SCOPED_TRACE("seed=" + std::to_string(seed) + " step=" + std::to_string(step));
  Story story(setting, seed);
  story.crash_at(step, crash, seed + step);
  if (story.open()) story.play(kActions);
  story.crash(crash, seed * 31 + step);
  // The recovery is cut short as well, a little later each time.
  story.crash_at(story.disk().steps() + 1 + step % 7, crash, seed + step);
  if (story.open()) story.play(kActionsAfter);
  story.crash(Crash::kPowerCut, seed * 37 + step);
  ASSERT_TRUE(story.open());
}

std::uint64_t steps_of(const Setting& setting, std::uint64_t seed) {
  Story story(setting, seed);
  EXPECT_TRUE(story.open());
  EXPECT_TRUE(story.play(kActions));
  return story.disk().steps();
}

constexpr std::uint64_t kWindow = limits::kLogWindowBytes;

/// At each step; at every fourth one, which move from seed to seed, where a small share of the
/// tests is wanted.
void crash_everywhere(SimKind kind, Crash crash, std::uint64_t seeds) {
  const std::uint64_t stride = breccia::testing::share_of(100) < 10 ? 4 : 1;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    // Each second one prepares ahead, three segments or one; two of three keep segments.
    const std::size_t ahead = seed % 2 == 0 ? 1 + seed % 4 : 0;
    const Setting setting{kind, ahead, seed % 3 * 2 * kWindow};
    const std::uint64_t steps = steps_of(setting, seed);
    for (std::uint64_t step = 1 + seed % stride; step <= steps; step += stride) {
      play_and_crash(setting, crash, seed, step);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Goal: a killed process loses no frame that was acknowledged as written; no half frame appears;
// whoever follows the log finds what is kept for it.
// Method: a script of batches, releases, holds and reopenings is killed at every step, by seed.
// Mutation: committing ranges of a later segment before an earlier one's fails.
TEST(WalCrash, KillAtEveryStepBuffered) { crash_everywhere(SimKind::kBuffered, Crash::kKill, 2); }
TEST(WalCrash, KillAtEveryStepMapped) { crash_everywhere(SimKind::kMapped, Crash::kKill, 1); }

// Goal: a power cut loses no synced frame; what survives is a prefix; the log always opens.
// Method: the same with unsynced 512-byte blocks, 64-byte lines and folder changes lost by seed.
// Mutation: no sync of a new segment's header or folder fails; so does calling any intact frame
// behind a gap damage, and reusing a discarded file for the same positions.
TEST(WalCrash, PowerCutAtEveryStepBuffered) {
  crash_everywhere(SimKind::kBuffered, Crash::kPowerCut, 6);
}
TEST(WalCrash, PowerCutAtEveryStepMapped) {
  crash_everywhere(SimKind::kMapped, Crash::kPowerCut, 1);
}

// Goal: a call that fails, before or after it has done its work, costs nothing but the process: the
// next one has all that was acknowledged, and what it shows survives a power cut.
// Method: the same with one failing call, in the story and in the opening behind it.
// Mutation: an opening that does not write again what it cannot know to be synced fails; so does
// one that removes a segment which it could not make.
TEST(WalCrash, FailureAtEveryStepBuffered) {
  crash_everywhere(SimKind::kBuffered, Crash::kFailure, 6);
}
TEST(WalCrash, LateFailureAtEveryStepBuffered) {
  crash_everywhere(SimKind::kBuffered, Crash::kLateFailure, 3);
}

/// A log that rolls after few frames, and has three segments at hand then.
LogOptions three_made_ahead(SimDisk* disk) {
  LogOptions options;
  options.dir = "log";
  options.files = disk->files();
  options.roll_bytes = 500;
  options.prepare_ahead = 3;
  return options;
}

// Goal: a frame larger than a segment takes the place of those that were prepared for others, and a
//   power cut on the way there leaves no gap.
// Method: three segments prepared, then such a frame, cut at each step; what was synced before it
//   comes back, and frames go on from there. At last it is not cut, and then segments are prepared
//   again.
// Mutation: giving the prepared ones up from the first on, or not durably, leaves a gap, and not at
//   all, files in the middle of the large segment.
TEST(WalCrash, ALargeFrameTakesThePlaceOfPreparedSegments) {
  const Records small = testing::large_record(300, 's');
  const Records large = testing::large_record(kWindow, 'l');
  bool is_whole = false;
  for (std::uint64_t step = 1; !is_whole; ++step) {
    SCOPED_TRACE("step=" + std::to_string(step));
    SimDisk disk(SimKind::kBuffered);
    const LogOptions options = three_made_ahead(&disk);
    std::unique_ptr<Log> log;
    std::vector<Replayed::One> frames;
    const auto open = [&] {
      log.reset();
      Replayed replayed;
      auto opened = Log::open(options, 0, replayed.sink(), &replayed.recovery);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      ASSERT_EQ(replayed.frames, frames);
      log = opened.take();
    };
    const auto put = [&](const Records& records) {
      frames.push_back(expected(put_frame(log.get(), records, false).take(), records));
      ASSERT_TRUE(log->commit(log->end(), /*sync=*/true).ok());
    };
    open();
    put(small);
    const std::uint64_t end = log->table()->segments().back()->end();
    for (std::uint64_t base = end; base < end + options.prepare_ahead * kWindow; base += kWindow) {
      while (!disk.is_durable("log/" + segment_name(base))) std::this_thread::yield();
    }
    disk.fail_at(disk.steps() + step, step);
    is_whole = log->reserve(large.bytes.size(), large.count(), 0).ok();
    log.reset();
    disk.power_cut(step);
    open();
    put(small);
    if (is_whole) put(large);
    put(small);
    open();
    if (HasFatalFailure()) return;
  }
}

// Goal: what a failed call leaves of segments that were made ahead is in no large frame's way.
// Method: one call fails, before or after its work, from the first frame on, while three segments
//   are made ahead; then comes a frame larger than a segment, and the log is opened again, twice.
// Mutation: a file that got its name before the sync of the folder failed stays inside the large
//   segment, unless whatever lies there is removed.
TEST(WalCrash, AFailedCallLeavesNothingInALargeFramesWay) {
  const Records small = testing::large_record(300, 's');
  for (const bool late : {false, true}) {
    bool has_failed = true;
    for (std::uint64_t step = 1; has_failed; ++step) {
      SCOPED_TRACE("late=" + std::to_string(late) + " step=" + std::to_string(step));
      SimDisk disk(SimKind::kBuffered);
      const LogOptions options = three_made_ahead(&disk);
      std::unique_ptr<Log> log;
      std::vector<Replayed::One> frames;
      const auto open = [&] {
        log.reset();
        Replayed replayed;
        auto opened = Log::open(options, 0, replayed.sink(), &replayed.recovery);
        ASSERT_TRUE(opened.ok()) << opened.status().ToString();
        ASSERT_GE(replayed.frames.size(), frames.size());
        frames.resize(replayed.frames.size());
        std::copy(replayed.frames.begin(), replayed.frames.end(), frames.begin());
        log = opened.take();
      };
      open();
      const std::uint64_t failing = disk.steps() + step;
      disk.fail_once(failing, late, step);
      const Frame frame = put_frame(log.get(), small, false).take();
      if (log->commit(log->end(), /*sync=*/true).ok()) frames.push_back(expected(frame, small));
      for (std::uint64_t steps = 0; steps != disk.steps();) {  // until no more are made
        steps = disk.steps();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      (void)log->reserve(kWindow + 512, 1, 0);
      log.reset();
      has_failed = disk.steps() >= failing;
      disk.kill();
      for (int life = 0; life < 2; ++life) {
        open();
        if (HasFatalFailure()) return;
        frames.push_back(expected(put_frame(log.get(), small, false).take(), small));
        ASSERT_TRUE(log->commit(log->end(), /*sync=*/true).ok());
      }
    }
  }
}

/// Opens and closes the log of a disk.
Status try_opening(SimDisk* disk) {
  LogOptions options;
  options.dir = "log";
  options.files = disk->files();
  options.prepare_ahead = 0;
  Replayed replayed;
  return Log::open(options, 0, replayed.sink(), &replayed.recovery).status();
}

/// A disk whose log has seven segments, of which nothing was synced but headers and names.
std::unique_ptr<SimDisk> unsynced_log() {
  auto disk = std::make_unique<SimDisk>(SimKind::kBuffered);
  LogOptions options;
  options.dir = "log";
  options.files = disk->files();
  options.prepare_ahead = 0;
  options.roll_bytes = 1;
  Replayed replayed;
  const auto log = Log::open(options, 0, replayed.sink(), &replayed.recovery);
  EXPECT_TRUE(log.ok());
  base::Random random(1);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(put_frame(log.value().get(), random_records(&random, 5), false).ok());
    EXPECT_TRUE(log.value()->commit(log.value()->end(), /*sync=*/false).ok());
  }
  return disk;
}

// Goal: an opening that removes the segments behind a torn tail may be killed, and the next one may
// meet a power cut: the log opens.
// Method: segments that were never synced, cut by seed; each step of an opening, then each of the
// next.
// Mutation: not syncing the folder before the first removal leaves a gap, where that of an earlier
// process is lost; asking for the segment that a closing frame promises behind a torn frame.
TEST(WalCrash, OpeningsThatRemoveSegmentsMayEndAnywhere) {
  const auto written = unsynced_log();
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(40)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    const auto torn = written->clone();
    torn->power_cut(seed);
    bool is_open = false;
    for (std::uint64_t kill = 1; !is_open; ++kill) {
      const auto killed = torn->clone();
      killed->fail_at(kill, seed);
      is_open = try_opening(killed.get()).ok();
      killed->kill();
      bool is_open_again = false;
      for (std::uint64_t cut = 1; !is_open_again; ++cut) {
        const auto left = killed->clone();
        left->fail_at(cut, seed + kill);
        is_open_again = try_opening(left.get()).ok();
        left->power_cut(seed + kill + cut);
        const Status opened = try_opening(left.get());
        ASSERT_TRUE(opened.ok()) << kill << ", " << cut << ": " << opened.ToString();
      }
    }
  }
}

}  // namespace
}  // namespace breccia::wal
