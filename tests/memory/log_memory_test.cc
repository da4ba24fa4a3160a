#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "fail_each.h"
#include "unit/wal/records.h"
#include "wal/log.h"
#include "wal/sim/sim_files.h"

namespace breccia::wal {
namespace {

using breccia::testing::fail_each;
using testing::expected;
using testing::Records;
using testing::Replayed;

/// A log that rolls after some hundred bytes, on a simulated disk, and what it has acknowledged.
class LogSession {
 public:
  LogSession() {
    options_.dir = "log";
    options_.files = disk_.files();
    options_.roll_bytes = 500;
    options_.prepare_ahead = 2;
  }

  [[nodiscard]] bool open() {
    Replayed replayed;
    auto opened = Log::open(options_, 0, replayed.sink(), &replayed.recovery);
    if (opened.ok()) log_ = opened.take();
    return opened.ok();
  }
  /// A frame, of whose place only the search may find no memory.
  void put(const Records& records) {
    if (is_stopped_) return;
    Frame frame;
    if (!reserve(records.bytes.size(), &frame)) return;
    log_->fill(&frame, records.bytes.data());
    log_->seal(&frame);
    ASSERT_TRUE(log_->commit(frame.end(), /*sync=*/true).ok());
    frames_.push_back(expected(frame, records));
  }
  /// A place for a frame that is larger than a segment, and nothing behind it.
  void reserve_large() {
    Frame frame;
    is_stopped_ = reserve(limits::kLogWindowBytes + 512, &frame);
  }

  void check() {
    log_.reset();
    disk_.kill();
    Replayed replayed;
    const auto opened = Log::open(options_, 0, replayed.sink(), &replayed.recovery);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ASSERT_GE(replayed.frames.size(), frames_.size());
    for (const Replayed::One& frame : frames_) {
      EXPECT_EQ(std::count(replayed.frames.begin(), replayed.frames.end(), frame), 1);
    }
  }

 private:
  [[nodiscard]] bool reserve(std::uint64_t bytes, Frame* frame) {
    const Status status = breccia::testing::tried([&] {
      return base::or_memory_limit([&] {
        BRECCIA_TAKE(*frame, log_->reserve(bytes, 1, 0));
        return Status::OK();
      });
    });
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
    return status.ok();
  }

  SimDisk disk_{SimKind::kBuffered};
  LogOptions options_;
  std::unique_ptr<Log> log_;
  bool is_stopped_ = false;
  std::vector<Replayed::One> frames_;
};

}  // namespace

// Goal: a roll that finds no memory changes nothing: what was acknowledged before it and behind is
//   there when the log is opened again.
// Method: each allocation fails of frames of which one rolls before anything is made ahead, others
//   behind it, and one is larger than a segment, with rolls behind that if it found no memory.
// Mutation: a segment that such a roll got and gave back under its name is taken for another one's
//   file later; so are those that were in a large one's way and are not all cleared.
TEST(LogMemory, Rolls) {
  const Records little = testing::large_record(60, 'l');
  const Records much = testing::large_record(420, 'm');
  fail_each<LogSession>([&](LogSession* session, const auto& arm) {
    ASSERT_TRUE(session->open());
    session->put(little);
    arm();
    for (const Records* const records : {&much, &little, &little, &much, &little, &much}) {
      session->put(*records);
    }
    session->reserve_large();
    for (const Records* const records : {&little, &much, &little, &much}) session->put(*records);
  });
}

}  // namespace breccia::wal
