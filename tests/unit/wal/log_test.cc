#include "wal/log.h"
#include "wal/recovery.h"

#include <unistd.h>

#include <array>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "records.h"
#include "wal/frame.h"
#include "wal/real_files.h"
#include "wal/sim/sim_files.h"

namespace breccia::wal {
namespace {

using testing::append_record;
using testing::expected;
using testing::large_record;
using testing::put_frame;
using testing::random_mixed_records;
using testing::random_records;
using testing::Records;
using testing::Replayed;
using testing::TempDir;

constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kWindow = limits::kLogWindowBytes;
constexpr std::uint64_t kFirst = kWindow + sizeof(SegmentHeader);

enum class Where { kSimBuffered, kSimMapped, kDiskRing, kDiskPwrite, kTmpfs };

/// A log, what was put into it, and reopening.
class WalLog : public ::testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    const bool sim = GetParam() == Where::kSimBuffered || GetParam() == Where::kSimMapped;
    if (GetParam() == Where::kTmpfs && medium_of("/dev/shm") != Medium::kTmpfs) GTEST_SKIP();
    if (sim) {
      disk_ = std::make_unique<SimDisk>(GetParam() == Where::kSimMapped ? SimKind::kMapped
                                                                        : SimKind::kBuffered);
      options_.dir = "log";
      options_.files = disk_->files();
    } else {
      dir_ = std::make_unique<TempDir>(GetParam() == Where::kTmpfs
                                           ? "/dev/shm"
                                           : std::filesystem::temp_directory_path().string());
      options_.dir = dir_->path() + "/deep/log";
      const bool ring = GetParam() == Where::kDiskRing;
      options_.files = GetParam() == Where::kTmpfs
                           ? real_files()
                           : real_files_with(ring ? Engine::kRing : Engine::kPwrite, true);
    }
    options_.prepare_ahead = 0;
  }

  Status reopen(std::uint64_t from) {
    log_.reset();
    replayed_ = Replayed();
    auto opened = Log::open(options_, from, replayed_.sink(), &replayed_.recovery);
    if (!opened.ok()) return opened.status();
    log_ = opened.take();
    return Status::OK();
  }

  Frame put(const Records& records, bool descriptors) {
    Result<Frame> frame = put_frame(log_.get(), records, descriptors);
    BRECCIA_ASSERT(frame.ok());
    model_.push_back(expected(frame.value(), records));
    return frame.take();
  }
  Frame put_at_line(const Records& records) {
    Frame frame = log_->reserve(records.bytes.size(), records.count(), 0, /*aligned=*/true).take();
    log_->fill(&frame, records.bytes.data());
    log_->seal(&frame);
    model_.push_back(expected(frame, records));
    return frame;
  }
  void put_and_commit(const Records& records, bool sync) {
    put(records, false);
    ASSERT_TRUE(log_->commit(log_->end(), sync).ok());
  }
  /// Opens the log with its first segment released and kept; `oldest` lies in it.
  void open_with_one_kept(std::uint64_t* oldest) {
    options_.roll_bytes = 100;
    ASSERT_TRUE(reopen(0).ok());
    for (int index = 0; index < 2; ++index) put_and_commit(random_records(&random_, 4), true);
    *oldest = options_.hold_from = log_->oldest();
    ASSERT_TRUE(reopen(log_->end()).ok());
  }

  std::unique_ptr<SimDisk> disk_;
  std::unique_ptr<TempDir> dir_;
  LogOptions options_;
  std::unique_ptr<Log> log_;
  std::vector<Replayed::One> model_;
  Replayed replayed_;
  base::Random random_{kSeed};
};

// Goal: a new log begins at the first window and has one segment; opened again unused, still one.
// Method: open three times and look.
// Mutation: a fresh segment behind an empty one would fill the disk with openings.
TEST_P(WalLog, EmptyLog) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(reopen(0).ok());
    EXPECT_EQ(log_->end(), kFirst);
    EXPECT_EQ(log_->begin(), kWindow);
    EXPECT_EQ(log_->table()->segments().size(), 1u);
    EXPECT_EQ(replayed_.recovery.frames, 0u);
    EXPECT_EQ(replayed_.recovery.message, "");
  }
  EXPECT_TRUE(log_->commit(log_->end(), true).ok());
}

// Goal: what was committed comes back in order after a reopening, and again after later ones.
// Method: rounds of frames of 0 to 1,100 records, with and without descriptors and sync, and of few
// that are to be aligned.
// Mutation: forgetting the closing frame at reopening loses the earlier rounds' successors.
TEST_P(WalLog, FramesComeBackInOrder) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  ASSERT_TRUE(reopen(0).ok());
  for (int round = 0; round < 4; ++round) {
    for (const std::uint64_t count : {0, 1, 31, 32, 33, 63, 64, 65, 999, 1000, 1001, 1100}) {
      const Frame frame = put(random_records(&random_, count), random_.one_in(2));
      EXPECT_EQ(frame.flags, count >= 1000 ? kFrameAligned : 0u);
      if (count >= 1000) {
        EXPECT_EQ(frame.records_position() % 64, 0u);
      }
      EXPECT_EQ(put_at_line(random_records(&random_, count % 9)).records_position() % 64, 0u);
      if (random_.one_in(3)) {
        ASSERT_TRUE(log_->commit(log_->end(), random_.one_in(2)).ok());
      }
    }
    ASSERT_TRUE(log_->commit(log_->end(), false).ok());
    const std::uint64_t end = log_->end();
    ASSERT_TRUE(reopen(0).ok());
    ASSERT_EQ(replayed_.frames, model_);
    EXPECT_EQ(replayed_.recovery.end, end);
    EXPECT_EQ(replayed_.recovery.frames, model_.size());
    EXPECT_EQ(replayed_.recovery.dropped_bytes, 0u);
    EXPECT_GT(log_->end(), end);
  }
}

// Goal: frames that hold more than point operations of one family come back as such, the others as
//   they are.
// Method: plain and mixed frames in turn, small and aligned, with and without descriptors; reopened
//   twice.
// Mutation: a layout that takes kFrameMixed for kFrameAligned, or a replay that drops the flag,
// fails.
TEST_P(WalLog, MixedFramesComeBackAsSuch) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  ASSERT_TRUE(reopen(0).ok());
  for (const std::uint64_t count : {0, 1, 2, 33, 64, 999, 1000, 1100}) {
    for (const bool descriptors : {false, true}) {
      put(random_records(&random_, count), descriptors);
      const Records mixed = random_mixed_records(&random_, count, /*ranges=*/!descriptors);
      Result<Frame> frame = put_frame(log_.get(), mixed, descriptors, /*mixed=*/true);
      ASSERT_TRUE(frame.ok());
      model_.push_back(expected(frame.value(), mixed));
      EXPECT_FALSE(model_.back().only_default_points);
    }
    ASSERT_TRUE(log_->commit(log_->end(), random_.one_in(2)).ok());
  }
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(reopen(0).ok());
    ASSERT_EQ(replayed_.frames, model_);
    EXPECT_EQ(replayed_.recovery.dropped_bytes, 0u);
  }
}

// Goal: frames around the size of a segment's room go where they fit, and one byte more rolls.
// Method: first frame leaves exactly room for a second, or 8 bytes less.
// Mutation: not keeping room for the closing frame writes past the segment.
TEST_P(WalLog, RollsAtTheExactByte) {
  const std::uint64_t frame_bytes = sizeof(FrameHeader) + sizeof(CommitRecord);
  const std::uint64_t room = kWindow - sizeof(SegmentHeader) - kClosingFrameBytes;
  const std::uint64_t value = 4096;
  const std::uint64_t first =
      room - 2 * frame_bytes - base::round_up(value + 13, 8) - base::round_up(13, 8);
  ASSERT_TRUE(reopen(0).ok());
  put(large_record(first - 8, 'a'), false);
  const bool exact = GetParam() != Where::kSimMapped;  // One of the kinds takes the other branch.
  const Frame second = put(large_record(exact ? value + 8 : value + 16, 'b'), false);
  EXPECT_EQ(second.position / kWindow, exact ? 1u : 2u);
  if (exact) {
    EXPECT_EQ(second.end(), 2 * kWindow - kClosingFrameBytes);
  }
  const Frame third = put(Records(), false);
  EXPECT_EQ(third.position / kWindow, 2u);
  ASSERT_TRUE(log_->commit(log_->end(), true).ok());
  EXPECT_EQ(log_->table()->segments().size(), 2u);
  ASSERT_TRUE(reopen(0).ok());
  EXPECT_TRUE(replayed_.frames == model_);
}

// Goal: a frame above a segment's size gets a segment of its own size; neighbours stay intact.
// Method: small, large, small; uncommitted until the end, so that one commit spans the segments.
// Mutation: rounding the size without the closing frame's room fails the assertion in reserve.
TEST_P(WalLog, OversizedFrame) {
  ASSERT_TRUE(reopen(0).ok());
  put(random_records(&random_, 3), true);
  const Frame large = put(large_record(kWindow + 5, 'x'), true);
  EXPECT_EQ(large.position, 2 * kWindow + sizeof(SegmentHeader));
  put(random_records(&random_, 3), true);
  EXPECT_EQ(log_->table()->segments().size(), 2u);
  EXPECT_EQ(log_->table()->segments()[1]->size, 2 * kWindow);
  ASSERT_TRUE(log_->commit(log_->end(), true).ok());
  for (const Replayed::One& one : model_) {
    EXPECT_EQ(std::memcmp(log_->table()->at(one.position), one.bytes.data(), 16), 0);
  }
  ASSERT_TRUE(reopen(0).ok());
  EXPECT_TRUE(replayed_.frames == model_);
}

// Goal: released segments leave the table, their files are reused once readers let go, and stale
// frames in them never come back.
// Method: many early rolls with releases, a reader that pins the first segments, then reopening.
// Mutation: reusing a pinned file changes the bytes the reader compares.
TEST_P(WalLog, RecycledSegments) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  options_.roll_bytes = 600;
  // A simulated mapped file that is opened twice has one image.
  std::multiset<std::byte*> maps;
  std::mutex maps_mutex;  // the log prepares segments on a thread of its own
  options_.on_map = [&](std::byte* image, std::uint64_t) {
    const std::lock_guard lock(maps_mutex);
    maps.insert(image);
  };
  options_.on_unmap = [&](std::byte* image) {
    const std::lock_guard lock(maps_mutex);
    maps.erase(maps.find(image));
  };
  ASSERT_TRUE(reopen(0).ok());
  put_and_commit(random_records(&random_, 8), true);
  const SegmentTablePtr pinned = log_->table();
  std::uint64_t released = 0;
  for (int round = 0; round < 60; ++round) {
    put_and_commit(random_records(&random_, 1 + random_.below(8)), random_.one_in(2));
    if (round % 7 != 6) continue;
    released = model_[model_.size() - 3].position - sizeof(FrameHeader);
    ASSERT_TRUE(log_->release_below(released).ok());
    EXPECT_EQ(log_->begin(), released);
    EXPECT_LE(log_->table()->segments().front()->base, released);
  }
  const Replayed::One& oldest = model_.front();
  EXPECT_EQ(std::memcmp(pinned->at(oldest.position), oldest.bytes.data(), oldest.bytes.size()), 0);
  EXPECT_LE(maps.size(), 16u);
  ASSERT_TRUE(log_->commit(log_->end(), false).ok());
  std::erase_if(model_, [&](const Replayed::One& one) { return one.position < released; });
  ASSERT_TRUE(reopen(released).ok());
  EXPECT_TRUE(replayed_.frames == model_);
  log_.reset();
  EXPECT_EQ(maps.size(), 1u);  // The reader's.
}

// Goal: `from` decides what is replayed: at a frame's start, inside it, behind all of it.
// Method: reopen with each of them; frames are put in between and must come back with the rest.
// Mutation: starting a new segment below `from` gives new records versions that are taken.
TEST_P(WalLog, ReopenWithFrom) {
  options_.roll_bytes = 600;
  ASSERT_TRUE(reopen(0).ok());
  for (int index = 0; index < 9; ++index) put_and_commit(random_records(&random_, 4), true);
  for (const std::size_t keep_from : {std::size_t{2}, std::size_t{5}, model_.size() - 1}) {
    for (const std::uint64_t inside : {0, 1}) {
      const std::uint64_t from = model_[keep_from].position + inside;
      ASSERT_TRUE(reopen(from).ok()) << replayed_.recovery.message;
      const std::vector<Replayed::One> tail(model_.begin() + static_cast<std::ptrdiff_t>(keep_from),
                                            model_.end());
      ASSERT_EQ(replayed_.frames, tail);
      put_and_commit(random_records(&random_, 4), true);
    }
  }
  for (const std::uint64_t beyond : {std::uint64_t{0}, kWindow, 3 * kWindow - 72}) {
    const std::uint64_t from = log_->end() + beyond;
    ASSERT_TRUE(reopen(from).ok());
    EXPECT_TRUE(replayed_.frames.empty());
    EXPECT_GE(log_->end(), from);
    model_.clear();
    put_and_commit(random_records(&random_, 4), true);
    ASSERT_TRUE(reopen(from).ok());
    EXPECT_EQ(replayed_.frames, model_);
  }
}

// Goal: an error of replay ends the opening and leaves the log as it was.
// Method: replay fails once, then works.
// Mutation: repairing before replaying adds a segment.
TEST_P(WalLog, ReplayErrorChangesNothing) {
  ASSERT_TRUE(reopen(0).ok());
  put_and_commit(random_records(&random_, 4), true);
  log_.reset();
  LogRecovery recovery;
  const auto refuse = [](const RecoveredFrame&) { return Status::Aborted("no"); };
  EXPECT_TRUE(Log::open(options_, 0, refuse, &recovery).status().IsAborted());
  ASSERT_TRUE(reopen(0).ok());
  EXPECT_EQ(replayed_.frames, model_);
  EXPECT_EQ(log_->end(), 2 * kWindow + sizeof(SegmentHeader));
}

// Goal: a log that should hold data and does not is no new log.
// Method: open an empty folder with a position; then a log whose first segment is below it.
// Mutation: starting afresh would hide the loss of the whole log.
TEST_P(WalLog, MissingLog) {
  EXPECT_TRUE(reopen(kFirst).IsCorruption());
  options_.roll_bytes = 100;
  ASSERT_TRUE(reopen(0).ok());
  for (int index = 0; index < 4; ++index) put_and_commit(random_records(&random_, 4), true);
  ASSERT_TRUE(log_->release_below(3 * kWindow).ok());
  put_and_commit(random_records(&random_, 4), true);
  put_and_commit(random_records(&random_, 4), true);
  EXPECT_TRUE(reopen(0).IsCorruption());
  EXPECT_TRUE(reopen(3 * kWindow).ok());
}

// Goal: a folder has one log at a time, and it is free again when that log is closed.
// Method: a second opening beside the first, then after it; one that fails keeps nothing locked.
// Mutation: without the lock the second opening cuts the log that the first still writes.
TEST_P(WalLog, OneLogAFolder) {
  ASSERT_TRUE(reopen(0).ok());
  put_and_commit(random_records(&random_, 4), true);
  Replayed second;
  EXPECT_TRUE(Log::open(options_, 0, second.sink(), &second.recovery).status().IsIOError());
  EXPECT_TRUE(second.frames.empty());
  put_and_commit(random_records(&random_, 4), true);
  EXPECT_TRUE(reopen(100 * kWindow + 8).ok());
  EXPECT_TRUE(reopen(0).IsCorruption());
  EXPECT_TRUE(reopen(100 * kWindow + 8).ok());
}

// Goal: a log goes on for its own store only, whatever `from` is, and a refusal changes nothing.
// Method: an identity that is given, another one, none; frames needed and all released.
// Mutation: asking the identity of replayed segments only takes a foreign log that is released.
TEST_P(WalLog, BelongsToOneStore) {
  options_.store_id = 5;
  ASSERT_TRUE(reopen(0).ok());
  put_and_commit(random_records(&random_, 4), true);
  for (const std::uint64_t from : {std::uint64_t{0}, kFirst, 9 * kWindow}) {
    options_.store_id = 6;
    const Status status = reopen(from);
    EXPECT_TRUE(status.IsCorruption());
    EXPECT_NE(status.ToString().find("another store"), std::string::npos) << status.ToString();
    EXPECT_TRUE(replayed_.frames.empty());
  }
  for (const std::uint64_t own : {5, 0, 5}) {  // 0: whoever asks for no identity gets the log.
    options_.store_id = own;
    ASSERT_TRUE(reopen(0).ok());
    EXPECT_EQ(replayed_.frames, model_);
  }
  ASSERT_TRUE(reopen(9 * kWindow).ok());  // Only a fresh segment is left, and it is still 5's.
  options_.store_id = 6;
  EXPECT_TRUE(reopen(9 * kWindow).IsCorruption());
}

// Goal: as much history as one may ask for is kept, also where the number is near 2^64.
// Method: frames in several segments are released, with the log open and over a reopening; the
// oldest stays readable.
// Mutation: a sum of a position and such a number wraps, and the history goes at the reopening.
TEST_P(WalLog, KeepsAllHistory) {
  for (const std::uint64_t less : {0, 1}) {
    options_.keep_bytes = ~std::uint64_t{0} - less;
    options_.roll_bytes = 100;
    ASSERT_TRUE(reopen(0).ok());
    for (int index = 0; index < 4; ++index) put_and_commit(random_records(&random_, 4), true);
    const std::uint64_t oldest = log_->oldest();
    ASSERT_TRUE(log_->release_below(log_->end()).ok());
    EXPECT_EQ(log_->oldest(), oldest);
    ASSERT_TRUE(reopen(log_->end()).ok());
    EXPECT_EQ(log_->oldest(), oldest);
    EXPECT_TRUE(log_->segment_at(oldest).ok());
    log_.reset();
    if (disk_ == nullptr) break;  // The simulated disk is new at once.
    disk_ = std::make_unique<SimDisk>(SimKind::kBuffered);
    options_.files = disk_->files();
  }
}

// Goal: what was released may be held over a reopening and brought back, the newest first; given
//       up, it goes as all that is released.
// Method: a segment for each of five frames, opened behind the last with a hold on the second; its
//         frames are compared.
// Mutation: files below `from` that become stock are gone; a table without them cannot read them;
//   one that is brought back beside a reader of it is another's when he reads on.
TEST_P(WalLog, HeldSegmentsComeBack) {
  options_.roll_bytes = 100;
  ASSERT_TRUE(reopen(0).ok());
  std::vector<Frame> frames;
  for (int index = 0; index < 5; ++index) {
    frames.push_back(put(random_records(&random_, 4), true));
    ASSERT_TRUE(log_->commit(log_->end(), true).ok());
  }
  options_.hold_from = frames[1].position;
  ASSERT_TRUE(reopen(frames[4].end()).ok());
  EXPECT_TRUE(replayed_.frames.empty());
  EXPECT_TRUE(replayed_.recovery.joins);
  EXPECT_EQ(log_->table()->segments().size(), 2U);
  for (const std::size_t index : {3, 2, 1}) {
    const SegmentPtr segment = log_->take_back().take();
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(log_->table()->segments().front(), segment);
    std::uint64_t begin = 0;
    const SegmentView view{segment->base, segment->size, segment->file->image(), segment->path,
                           segment->size};
    const auto found = whole_frames(view, segment->base, segment->end(), &begin).take();
    EXPECT_EQ(begin, segment->base);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].records_position, frames[index].records_position());
    EXPECT_EQ(found[0].record_bytes, frames[index].record_bytes);
    EXPECT_EQ(whole_frames(view, segment->base, frames[index].position + 8, &begin).status().code(),
              Status::Code::kCorruption);
  }
  EXPECT_EQ(log_->take_back().take(), nullptr);
  // One that somebody still has is not mapped twice: its file would be used again below him.
  SegmentPtr pinned = log_->table()->segments().front();
  ASSERT_TRUE(log_->release_below(pinned->end()).ok());
  EXPECT_EQ(log_->take_back().take(), nullptr);
  EXPECT_EQ(log_->segment_at(pinned->base).take(), pinned);
  pinned.reset();
  EXPECT_NE(log_->take_back().take(), nullptr);
  log_->remove_hold(kOpeningHold);
  ASSERT_TRUE(log_->release_below(log_->end()).ok());
  EXPECT_EQ(log_->table()->segments().size(), 1U);
  options_.hold_from = 0;
  ASSERT_TRUE(reopen(log_->end()).ok());
}

// Goal: who reads what is kept reads it also while it comes back into use and is released again.
// Method: a thread opens the oldest segment again and again, and at times sleeps, so that on any
//         machine there are moments when nobody has it; meanwhile another brings it back and
//         releases it until that succeeded 50 times.
// Mutation: a segment that is neither kept nor in use once its file is open was taken back
//   meanwhile, not released.
TEST_P(WalLog, KeptSegmentsAreReadWhileTheyComeBack) {
  std::uint64_t oldest = 0;
  open_with_one_kept(&oldest);
  std::jthread reader([&](const std::stop_token& stop) {
    for (int turn = 0; !stop.stop_requested(); ++turn) {
      const Status status = log_->segment_at(oldest).status();
      ASSERT_TRUE(status.ok()) << status.ToString();
      if (turn % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int came_back = 0;
  while (came_back < 50 && std::chrono::steady_clock::now() < deadline) {
    came_back += log_->take_back().take() != nullptr ? 1 : 0;
    ASSERT_TRUE(log_->release_below(log_->begin()).ok());
  }
  EXPECT_EQ(came_back, 50);
}

// Goal: all who read a kept segment share one mapping, so that the end of the last is known.
// Method: two threads open it at the same moment, 200 times.
// Mutation: whoever opens it last is the only one the log knows; take_back() then maps a file again
//   that the other still reads.
TEST_P(WalLog, ReadersOfAKeptSegmentShareIt) {
  std::uint64_t oldest = 0;
  open_with_one_kept(&oldest);
  for (int turn = 0; turn < 200; ++turn) {
    std::array<SegmentPtr, 2> found;
    std::barrier together(2);
    const auto open = [&](int index) {
      together.arrive_and_wait();
      found[index] = log_->segment_at(oldest).take();
    };
    std::jthread other(open, 1);
    open(0);
    other.join();
    ASSERT_EQ(found[0], found[1]);
  }
}

// Goal: an opening says whether anything is missing in front of `from`.
// Method: a frame that is committed, and one that is not, opened behind both: on a medium that is
//         not mapped the second is lost.
// Mutation: believing the chain that an opening closes takes the log for whole.
TEST_P(WalLog, SaysWhatIsMissing) {
  ASSERT_TRUE(reopen(0).ok());
  put_and_commit(random_records(&random_, 4), true);
  const std::uint64_t behind_one = log_->end();
  const bool mapped = log_->table()->segments().front()->file->mapped();
  put(random_records(&random_, 4), true);
  const std::uint64_t behind_both = log_->end();
  ASSERT_TRUE(reopen(behind_both).ok());
  EXPECT_EQ(replayed_.recovery.joins, mapped);
  ASSERT_TRUE(reopen(behind_one).ok());
  EXPECT_TRUE(replayed_.recovery.joins);
}

std::string name_of(const ::testing::TestParamInfo<Where>& info) {
  switch (info.param) {
    case Where::kSimBuffered:
      return "SimBuffered";
    case Where::kSimMapped:
      return "SimMapped";
    case Where::kDiskRing:
      return "DiskRing";
    case Where::kDiskPwrite:
      return "DiskPwrite";
    case Where::kTmpfs:
      return "Tmpfs";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Everywhere, WalLog,
                         ::testing::Values(Where::kSimBuffered, Where::kSimMapped, Where::kDiskRing,
                                           Where::kDiskPwrite, Where::kTmpfs),
                         name_of);

// Goal: damage on the medium is named by file and offset and nothing is changed by the attempt.
// Method: a bit in the first of three synced frames; then the bit is put back.
// Mutation: repairing before judging the end would cut the log at the damage.
TEST(WalLogDamage, IsReportedAndNothingChanges) {
  SimDisk disk(SimKind::kBuffered);
  LogOptions options;
  options.dir = "log";
  options.files = disk.files();
  base::Random random(kSeed);
  Replayed replayed;
  {
    auto log = Log::open(options, 0, replayed.sink(), &replayed.recovery).take();
    for (int index = 0; index < 3; ++index) {
      ASSERT_TRUE(put_frame(log.get(), random_records(&random, 4), true).ok());
      ASSERT_TRUE(log->commit(log->end(), true).ok());
    }
  }
  const std::string path = disk.names().front();
  disk.damage(path, 130, 4);
  const std::uint64_t steps = disk.steps();
  const auto broken = Log::open(options, 0, replayed.sink(), &replayed.recovery);
  EXPECT_TRUE(broken.status().IsCorruption());
  EXPECT_NE(broken.status().ToString().find(path + ", offset 64"), std::string::npos)
      << broken.status().ToString();
  EXPECT_EQ(disk.steps(), steps + 1);  // the folder's name was synced once more
  EXPECT_TRUE(replayed.frames.empty());
  disk.damage(path, 130, 4);
  EXPECT_TRUE(Log::open(options, 0, replayed.sink(), &replayed.recovery).ok());
  EXPECT_EQ(replayed.frames.size(), 3u);
}

}  // namespace
}  // namespace breccia::wal
