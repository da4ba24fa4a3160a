#include "wal/segment_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>

#include "faulty_log_files.h"
#include "wal/log.h"
#include "wal/sim/sim_files.h"

namespace breccia::wal {
namespace {

constexpr std::uint64_t kWindow = limits::kLogWindowBytes;

/// A pool on a simulated disk, and how many images it has announced.
class WalSegmentPool : public ::testing::Test {
 protected:
  WalSegmentPool() {
    options_.dir = "log";
    options_.files = disk_.files();
    EXPECT_TRUE(options_.files->create_dir(options_.dir).take());
    options_.on_map = [this](std::byte* image, std::uint64_t) {
      const std::lock_guard lock(images_mutex_);
      images_.insert(image);
    };
    options_.on_unmap = [this](std::byte* image) {
      const std::lock_guard lock(images_mutex_);
      images_.erase(image);
    };
    pool_ = std::make_shared<SegmentPool>(options_, /*store_id=*/1);
  }

  [[nodiscard]] SegmentPtr make(std::uint64_t window, std::uint64_t windows) {
    const std::uint64_t base = window * kWindow;
    return pool_->make(base, base + sizeof(SegmentHeader), windows * kWindow).take();
  }
  /// Of what was in use before these trims nothing counts any more.
  void forget_use() {
    for (int round = 0; round < 3; ++round) pool_->trim();
  }
  [[nodiscard]] std::size_t unfinished() const {
    const std::vector<std::string> names = disk_.names();
    return static_cast<std::size_t>(std::count_if(names.begin(), names.end(), is_unfinished_name));
  }

  SimDisk disk_{SimKind::kBuffered};
  LogOptions options_;
  std::mutex images_mutex_;  // a stock is made by several threads
  std::set<std::byte*> images_;
  std::shared_ptr<SegmentPool> pool_;
};

}  // namespace

// Goal: a file that is stale is not used again, but its image is; where there can be no new file,
//   it is used all the same. The old one goes.
// Method: one segment of a file that says that it is stale, and another while no step of the disk
//   succeeds at first.
// Mutation: a file under its old name, or one that stays in the folder, fails.
TEST_F(WalSegmentPool, StaleFilesAreReplaced) {
  const auto stale = std::make_shared<testing::Faults>();
  stale->are_stale = true;
  std::vector<SegmentPtr> used;
  for (const bool has_room : {true, false}) {
    const std::string name = has_room ? "log/first.new" : "log/second.new";
    auto file = options_.files->create(name, kWindow).take();
    file->rest();
    std::byte* const image = file->image();
    pool_->give(name, std::make_unique<testing::FaultyFile>(std::move(file), stale));
    if (!has_room) disk_.fail_once(disk_.steps() + 1, /*after=*/false, /*seed=*/1);
    const std::uint64_t window = has_room ? 1 : 2;
    const SegmentPtr segment = make(window, 1);
    used.push_back(segment);
    EXPECT_EQ(segment->file->image(), image);
    EXPECT_EQ(segment->path, "log/" + segment_name(window * kWindow));
    EXPECT_TRUE(disk_.is_durable(segment->path));
    const auto count = [&](const std::string& path) {
      const std::vector<std::string> names = disk_.names();
      return std::count(names.begin(), names.end(), path);
    };
    EXPECT_EQ(count(segment->path), 1);
    EXPECT_EQ(count(name), has_room ? 1 : 0);  // nobody waits until it is removed
    pool_->remove_one_obsolete();
    EXPECT_EQ(count(name), 0);
    EXPECT_EQ(unfinished(), 0U);
  }
}

// Goal: segments are made of the stock while there is some of their size; then files are created.
// Method: a stock of three windows and a bit; one large segment and four usual ones.
// Mutation: a stock under the names of segments, or one that nobody takes from, fails.
TEST_F(WalSegmentPool, StockBecomesSegments) {
  ASSERT_TRUE(pool_->stock(3 * kWindow + kWindow / 2).ok());
  EXPECT_EQ(unfinished(), 3U);
  EXPECT_EQ(images_.size(), 3U);
  const std::set<std::byte*> stocked = images_;
  const SegmentPtr large = make(1, 2);
  EXPECT_EQ(stocked.count(large->file->image()), 0U);
  EXPECT_EQ(unfinished(), 3U);

  std::vector<SegmentPtr> segments;
  for (std::size_t left = 3; left > 0; --left) {
    segments.push_back(make(6 - left, 1));
    EXPECT_EQ(stocked.count(segments.back()->file->image()), 1U);
    EXPECT_EQ(segments.back()->path, "log/" + segment_name(segments.back()->base));
    EXPECT_EQ(unfinished(), left - 1);
  }
  const std::uint64_t steps = disk_.steps();
  segments.push_back(make(6, 1));
  EXPECT_EQ(stocked.count(segments.back()->file->image()), 0U);
  EXPECT_EQ(disk_.steps() - steps, 5U);  // created, header written and synced, named, name synced
  EXPECT_EQ(unfinished(), 0U);
}

// Goal: trimming leaves the stock alone, also where it is larger than what is usually kept, and
// removes what comes back beyond it or has another size.
// Method: a stock of more than kFreeSegmentsMax; segments of it, one more and a large one released.
// Mutation: trimming to kFreeSegmentsMax throws away files that were just made.
TEST_F(WalSegmentPool, StockIsNotTrimmed) {
  const std::uint64_t count = kFreeSegmentsMax + 2;
  ASSERT_TRUE(pool_->stock(count * kWindow).ok());
  pool_->trim();
  EXPECT_EQ(disk_.names().size(), count);
  {
    std::vector<SegmentPtr> segments;
    for (std::uint64_t window = 1; window <= count + 1; ++window) {
      segments.push_back(make(window, 1));
    }
    segments.push_back(make(count + 2, 2));
    EXPECT_EQ(disk_.names().size(), count + 2);
    EXPECT_EQ(unfinished(), 0U);
  }
  forget_use();
  EXPECT_EQ(disk_.names().size(), count);
  EXPECT_EQ(images_.size(), count);
}

// Goal: a pool without a stock keeps kFreeSegmentsMax files, and as many more as were in use with
//   those still in use lately.
// Method: more segments than that are made, and some of them released; then all, and trims.
// Mutation: a limit of the stock's size alone keeps none; without what was in use they are removed
//   at once, and with all that ever was, never.
TEST_F(WalSegmentPool, KeepsSomeFilesWithoutAStock) {
  ASSERT_TRUE(pool_->stock(kWindow - 1).ok());
  EXPECT_TRUE(disk_.names().empty());
  {
    std::vector<SegmentPtr> segments;
    for (std::uint64_t window = 1; window <= 2 * kFreeSegmentsMax; ++window) {
      segments.push_back(make(window, 1));
    }
    segments.resize(kFreeSegmentsMax - 1);
    for (int round = 0; round < 2; ++round) {
      pool_->trim();
      EXPECT_EQ(disk_.names().size(), 2 * kFreeSegmentsMax);
    }
    pool_->trim();
    EXPECT_EQ(disk_.names().size(), 2 * kFreeSegmentsMax - 1);
  }
  forget_use();
  EXPECT_EQ(disk_.names().size(), kFreeSegmentsMax);
}

// Goal: a stock that the medium has no room for is an error of the opening, and what was made of it
// is gone after the next one.
// Method: the power fails in the middle of the stock; then the log is opened without one.
// Mutation: names that recovery does not know leave files behind for ever.
TEST_F(WalSegmentPool, AFailedStockLeavesNothingBehind) {
  options_.preallocate_bytes = 4 * kWindow;
  options_.on_map = nullptr;
  options_.on_unmap = nullptr;
  LogRecovery recovery;
  const auto ignore = [](const RecoveredFrame&) { return Status::OK(); };
  disk_.fail_at(disk_.steps() + 9, /*seed=*/1);
  EXPECT_FALSE(Log::open(options_, 0, ignore, &recovery).ok());
  EXPECT_GT(unfinished(), 0U);
  disk_.kill();
  options_.preallocate_bytes = 0;
  options_.prepare_ahead = 0;
  EXPECT_TRUE(Log::open(options_, 0, ignore, &recovery).ok());
  EXPECT_EQ(unfinished(), 0U);
  options_.preallocate_bytes = 4 * kWindow;
  const auto log = Log::open(options_, 0, ignore, &recovery);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(unfinished(), 4U);
}

}  // namespace breccia::wal
