#include <gtest/gtest.h>

#include "faulty_log_files.h"
#include "records.h"
#include "wal/log.h"
#include "wal/segment_pool.h"
#include "wal/sim/sim_files.h"

namespace breccia::wal {
namespace {

using testing::expected;
using testing::Faults;
using testing::FaultyLogFiles;
using testing::put_frame;
using testing::random_records;
using testing::Records;
using testing::Replayed;

constexpr std::uint64_t kSeed = 11;

class WalLogFaults : public ::testing::Test {
 protected:
  WalLogFaults() {
    options_.dir = "log";
    options_.files = std::make_shared<FaultyLogFiles>(disk_.files(), faults_);
    options_.roll_bytes = 400;
    options_.prepare_ahead = 0;
  }

  void open() {
    log_.reset();
    replayed_ = Replayed();
    auto opened = Log::open(options_, from_, replayed_.sink(), &replayed_.recovery);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    log_ = opened.take();
  }

  /// Puts and commits one frame; remembers it if that worked.
  Status write_one(bool sync) {
    const Records records = random_records(&random_, 4);
    BRECCIA_TAKE(const Frame frame, put_frame(log_.get(), records, true));
    BRECCIA_TRY(log_->commit(log_->end(), sync));
    model_.push_back(expected(frame, records));
    return Status::OK();
  }

  /// Releases all but the newest `frames`, as a flush would.
  void release_all_but(std::size_t frames) {
    if (model_.size() <= frames) return;
    model_.erase(model_.begin(), model_.end() - static_cast<std::ptrdiff_t>(frames));
    from_ = model_.front().position;
    ASSERT_TRUE(log_->release_below(from_).ok());
  }

  /// All that was acknowledged came back, and behind it at most what was not.
  void expect_model_recovered() {
    ASSERT_GE(replayed_.frames.size(), model_.size());
    replayed_.frames.resize(model_.size());
    ASSERT_EQ(replayed_.frames, model_);
  }

  SimDisk disk_{SimKind::kBuffered};
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  LogOptions options_;
  std::uint64_t from_ = 0;
  std::unique_ptr<Log> log_;
  Replayed replayed_;
  std::vector<Replayed::One> model_;
  base::Random random_{kSeed};
};

// Goal: after a failed write or sync the log refuses every call, with the first status.
// Method: the fault strikes once, then the disk works; a power cut and a reopening follow.
// Mutation: clearing the failure lets a later sync vouch for bytes that the kernel has dropped.
TEST_F(WalLogFaults, CommitFailureIsFinal) {
  for (int Faults::*const kind : {&Faults::write, &Faults::sync}) {
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE("seed=" + std::to_string(kSeed) + " round=" + std::to_string(round));
      open();
      for (int index = 0; index < round; ++index) ASSERT_TRUE(write_one(true).ok());
      // A roll may meet the fault first. It takes nothing and the log goes on: strike later.
      for (int nth = 1; log_->release_below(0).ok(); nth = nth % 3 + 1) {
        *faults_ = Faults();
        faults_.get()->*kind = nth;
        write_one(true).PermitUncheckedError();
      }
      *faults_ = Faults();
      EXPECT_TRUE(log_->commit(log_->end(), true).IsIOError());
      EXPECT_TRUE(log_->commit(log_->begin(), false).IsIOError());
      EXPECT_TRUE(log_->reserve(8, 1, 0).status().IsIOError());
      log_.reset();
      disk_.power_cut(kSeed + static_cast<std::uint64_t>(round));
      *faults_ = Faults();
      open();
      const std::vector<Replayed::One> recovered = replayed_.frames;
      expect_model_recovered();
      model_ = recovered;
    }
  }
}

// Goal: a segment that cannot be made fails the reserve and nothing else; later ones work.
// Method: each step of making a segment fails once, at a roll.
// Mutation: taking the position before the segment is there leaves a hole that ends the log.
TEST_F(WalLogFaults, RollFailureTakesNothing) {
  for (int Faults::*const kind :
       {&Faults::create, &Faults::write, &Faults::sync, &Faults::rename, &Faults::sync_dir}) {
    open();
    while (log_->end() % limits::kLogWindowBytes < 400) ASSERT_TRUE(write_one(true).ok());
    const std::uint64_t end = log_->end();
    faults_.get()->*kind = 1;
    const auto reserved = log_->reserve(24, 1, 0);
    ASSERT_FALSE(reserved.ok());
    EXPECT_EQ(reserved.status().IsNoSpace(), kind == &Faults::create);
    EXPECT_EQ(log_->end(), end);
    EXPECT_TRUE(log_->commit(end, true).ok());
    for (int index = 0; index < 3; ++index) ASSERT_TRUE(write_one(true).ok());
    log_.reset();
    disk_.power_cut(kSeed);
    open();
    ASSERT_EQ(replayed_.frames, model_);
  }
}

// Goal: an opening that fails anywhere leaves a log that opens with the same frames.
// Method: every call that changes the disk fails once, before or after it has done its work; the
// process is killed or meets a power cut; frames are put between two openings, or none.
// Mutation: removing a segment whose folder could not be synced under its final name loses the
// segment that the one before it promises, or the whole log.
TEST_F(WalLogFaults, OpeningMayFailAnywhere) {
  open();
  for (int index = 0; index < 5; ++index) ASSERT_TRUE(write_one(true).ok());
  log_.reset();
  std::uint64_t seed = kSeed;
  for (const bool writes : {false, true}) {
    for (const bool after : {false, true}) {
      for (const bool power_cut : {false, true}) {
        bool struck = true;
        for (std::uint64_t step = 1; struck; ++step) {
          SCOPED_TRACE("writes=" + std::to_string(writes) + " after=" + std::to_string(after) +
                       " power_cut=" + std::to_string(power_cut) + " step=" + std::to_string(step));
          const std::uint64_t steps = disk_.steps();
          disk_.fail_once(steps + step, after, ++seed);
          Replayed ignored;
          const bool opened = Log::open(options_, from_, ignored.sink(), &ignored.recovery).ok();
          struck = disk_.steps() >= steps + step;
          EXPECT_TRUE(opened || struck);
          power_cut ? disk_.power_cut(seed) : disk_.kill();
          open();
          if (HasFatalFailure()) return;
          ASSERT_EQ(replayed_.frames, model_);
          if (writes) {
            ASSERT_TRUE(write_one(true).ok());
            release_all_but(3);
          }
          log_.reset();
        }
      }
    }
  }
}

// Goal: what an opening shows, and what is synced behind it, survives a power cut, also where a
// sync had failed before it: its blocks are in the page cache, and no later sync writes them.
// Method: each step of some synced commits fails once, before or after its work; the log is opened
// again, gets synced frames and loses its power.
// Mutation: an opening that syncs without writing again loses acknowledged frames.
TEST_F(WalLogFaults, FailedSyncThenReopenThenPowerCut) {
  for (const bool after : {false, true}) {
    for (std::uint64_t step = 1; step <= 60; ++step) {
      const std::uint64_t seed = kSeed * 1000 + step;
      SCOPED_TRACE("seed=" + std::to_string(seed) + " after=" + std::to_string(after) +
                   " step=" + std::to_string(step));
      open();
      disk_.fail_once(disk_.steps() + step % 20 + 1, after, seed);
      for (int index = 0; index < 12 && write_one(index % 3 == 0).ok(); ++index) {
      }
      disk_.kill();
      open();
      if (HasFatalFailure()) return;
      const std::vector<Replayed::One> shown = replayed_.frames;
      expect_model_recovered();
      model_ = shown;
      for (int index = 0; index < 3; ++index) ASSERT_TRUE(write_one(true).ok());
      log_.reset();
      disk_.power_cut(seed);
      open();
      if (HasFatalFailure()) return;
      ASSERT_EQ(replayed_.frames, model_);
      release_all_but(4);
    }
  }
}

// Goal: a file that nobody needs and that cannot be removed stops nothing and is removed later,
//   the first time that it can be: of a released segment, of one that was kept, an unfinished one.
// Method: every removal fails for a while; frames, releases and openings go on; then they work.
// Mutation: a release that returns the failure makes the store read-only; one that forgets the file
//   leaves it for ever; a new file under the name of one that could not be removed fails.
TEST_F(WalLogFaults, ObsoleteFilesAreRemovedLater) {
  constexpr int kSegments = 12;  // more than the pool keeps
  options_.preallocate_bytes = limits::kLogWindowBytes;
  for (const std::uint64_t keep_windows : {0, 3}) {
    options_.keep_bytes = keep_windows * limits::kLogWindowBytes;
    open();
    faults_->no_removals = true;
    while (log_->end() - log_->begin() < kSegments * limits::kLogWindowBytes) {
      ASSERT_TRUE(write_one(true).ok());
    }
    for (int round = 0; round < 3; ++round) {
      release_all_but(1);
      ASSERT_TRUE(write_one(true).ok());
      open();
      ASSERT_EQ(replayed_.frames, model_);
    }
    EXPECT_GT(disk_.names().size(), kSegments);
    faults_->no_removals = false;
    ASSERT_TRUE(log_->release_below(from_).ok());
    // The segments in use and those that are kept, and what the pool holds.
    EXPECT_LE(disk_.names().size(),
              log_->table()->segments().size() + keep_windows + 1 + kFreeSegmentsMax);
  }
}

// Goal: a new log's folder and those above it are there after a power cut once a frame is synced.
// Method: a log three folders deep; the opening before it was cut at each of its steps, so that
// some of the folders are there and not durable.
// Mutation: no sync of the folder above, or only of those that this process has made, fails.
TEST_F(WalLogFaults, FoldersOfANewLogAreDurable) {
  for (std::uint64_t step = 1; step <= 16; ++step) {
    SCOPED_TRACE("step=" + std::to_string(step));
    SimDisk disk(SimKind::kBuffered);
    options_.dir = "some/where/deep";
    options_.files = disk.files();
    disk.fail_at(step, kSeed);
    Replayed ignored;
    (void)Log::open(options_, 0, ignored.sink(), &ignored.recovery);
    disk.kill();
    model_.clear();
    open();
    if (HasFatalFailure()) return;
    ASSERT_TRUE(write_one(true).ok());
    log_.reset();
    disk.power_cut(kSeed + step);
    open();
    if (HasFatalFailure()) return;
    ASSERT_EQ(replayed_.frames, model_);
    log_.reset();
  }
}

}  // namespace
}  // namespace breccia::wal
