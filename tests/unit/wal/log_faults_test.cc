#include <gtest/gtest.h>

#include "faulty_log_files.h"
#include "records.h"
#include "wal/log.h"
#include "wal/sim_files.h"

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
    options_.prepare_ahead = false;
  }

  void open() {
    log_.reset();
    replayed_ = Replayed();
    auto opened = Log::open(options_, 0, replayed_.sink(), &replayed_.recovery);
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

  /// All that was acknowledged came back, and behind it at most what was not.
  void expect_model_recovered() {
    ASSERT_GE(replayed_.frames.size(), model_.size());
    replayed_.frames.resize(model_.size());
    ASSERT_EQ(replayed_.frames, model_);
  }

  SimDisk disk_{SimKind::kBuffered};
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  LogOptions options_;
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
// Method: every kind of call fails once at its n-th use during opening, for n from 1 up.
// Mutation: closing the last segment before the fresh one exists makes the tail look lost.
TEST_F(WalLogFaults, OpeningMayFailAnywhere) {
  open();
  for (int index = 0; index < 5; ++index) ASSERT_TRUE(write_one(true).ok());
  for (int Faults::*const kind : {&Faults::create, &Faults::write, &Faults::sync, &Faults::rename,
                                  &Faults::sync_dir, &Faults::remove}) {
    for (int nth = 1; nth < 20; ++nth) {
      log_.reset();
      faults_.get()->*kind = nth;
      Replayed ignored;
      const bool failed = !Log::open(options_, 0, ignored.sink(), &ignored.recovery).ok();
      const bool struck = faults_.get()->*kind == 0;
      *faults_ = Faults();
      disk_.power_cut(kSeed + static_cast<std::uint64_t>(nth));
      open();
      ASSERT_EQ(replayed_.frames, model_);
      ASSERT_TRUE(write_one(true).ok());
      if (!struck) break;
      EXPECT_TRUE(failed || kind == &Faults::remove);
    }
  }
}

}  // namespace
}  // namespace breccia::wal
