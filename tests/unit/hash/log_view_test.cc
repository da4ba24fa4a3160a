#include "hash/engine/log_view.h"

#include <breccia/hash_options.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "exec/device.h"
#include "support/fake_gpu.h"
#include "support/seeds.h"

/// A log as a device reads it: what it shows lies where it says, and stays there.

namespace breccia::hash {

namespace {

/// A segment's image that is never touched: addresses are all that counts.
class Image final : public wal::SegmentFile {
 public:
  Image(std::uint64_t number, std::uint64_t size, std::shared_ptr<LogView> view)
      : image_(reinterpret_cast<std::byte*>((number + 1) << 32)), size_(size), view_(view) {
    view_->map(image_, size_);
  }
  ~Image() override { view_->unmap(image_); }

  std::byte* image() override { return image_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] bool mapped() const override { return true; }
  void rest() override {}
  Status wake(const std::string&) override { return Status::OK(); }
  Status write(std::uint64_t, std::uint64_t) override { return Status::OK(); }
  Status sync(std::uint64_t, std::uint64_t) override { return Status::OK(); }
  Result<std::uint64_t> load() override { return size_; }

 private:
  std::byte* const image_;
  const std::uint64_t size_;
  const std::shared_ptr<LogView> view_;
};

/// A log that gets segments at its end and loses them at its front.
class SomeLog {
 public:
  explicit SomeLog(std::shared_ptr<LogView> view) : view_(std::move(view)) {}

  void grow(std::uint64_t windows) {
    auto segment = std::make_shared<wal::Segment>();
    segment->base = end_;
    segment->size = windows * LogRef::kWindowBytes;
    segment->file = std::make_unique<Image>(made_++, segment->size, view_);
    end_ = segment->end();
    segments_.push_back(std::move(segment));
  }
  void shrink() { segments_.erase(segments_.begin()); }
  [[nodiscard]] const std::vector<wal::SegmentPtr>& segments() const { return segments_; }
  [[nodiscard]] wal::SegmentTablePtr table() const {
    return std::make_shared<const wal::SegmentTable>(segments_);
  }

 private:
  const std::shared_ptr<LogView> view_;
  std::vector<wal::SegmentPtr> segments_;
  std::uint64_t end_ = LogRef::kWindowBytes;
  std::uint64_t made_ = 0;
};

std::shared_ptr<LogView> make_view() { return std::make_shared<LogView>(make_host_backend()); }

/// Waits for the view's thread to have adopted so many bytes.
void wait_for(const LogView& view, std::uint64_t bytes) {
  while (view.adopted_bytes() != bytes) std::this_thread::yield();
}

}  // namespace

// Goal: what a view shows of a position is where its segment has it, or nothing.
// Method: a log that grows and shrinks at random; every window's ends after each change.
// Mutation: windows of another base; windows that are not made again.
TEST(HashLogView, ShowsWhereSegmentsLie) {
  for (const std::uint64_t seed : testing::seeds_to_run(50)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto view = make_view();
    SomeLog log(view);
    log.grow(1);
    (void)view->get(log.table());  // from now on images are adopted
    for (int turn = 0; turn < 20; ++turn) {
      random.one_in(3) && log.segments().size() > 1 ? log.shrink() : log.grow(1 + random.below(3));
      const wal::SegmentTablePtr table = log.table();
      view->let_go(table);
      std::uint64_t bytes = 0;
      for (const auto& segment : table->segments()) bytes += segment->size;
      wait_for(*view, bytes);
      const LogWindowsPtr windows = view->get(table);
      ASSERT_NE(windows, nullptr);
      const LogRef ref = windows->ref();
      for (const auto& segment : table->segments()) {
        for (std::uint64_t at = segment->base; at < segment->end(); at += LogRef::kWindowBytes) {
          ASSERT_EQ(ref.at(at, 8), reinterpret_cast<const char*>(table->at(at)));
          const std::uint64_t last = at + LogRef::kWindowBytes - 8;
          ASSERT_EQ(ref.at(last, 8), reinterpret_cast<const char*>(table->at(last)));
          const bool is_end = last + 8 == segment->end();
          ASSERT_EQ(ref.at(last, 16), is_end ? nullptr : ref.at(last, 8));
        }
      }
      ASSERT_EQ(ref.at(table->segments().front()->base - 8, 8), nullptr);
      ASSERT_EQ(ref.at(table->segments().back()->end(), 8), nullptr);
    }
    view->stop();
  }
}

// Goal: a view keeps segments that it shows, and no others once it was told to let go.
// Mutation: windows without the table; a view that keeps the old windows.
TEST(HashLogView, KeepsWhatItShows) {
  const auto view = make_view();
  SomeLog log(view);
  log.grow(1);
  log.grow(1);
  const std::weak_ptr<wal::Segment> first = log.segments().front();
  (void)view->get(log.table());
  wait_for(*view, 2 * LogRef::kWindowBytes);
  LogWindowsPtr windows = view->get(log.table());
  ASSERT_NE(windows, nullptr);
  log.shrink();
  EXPECT_FALSE(first.expired());
  view->let_go(log.table());
  EXPECT_FALSE(first.expired());  // somebody reads there
  windows.reset();
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(view->adopted_bytes(), LogRef::kWindowBytes);
  view->stop();
  EXPECT_EQ(view->get(log.table()), nullptr);
}

// Goal: a device that adopts nothing costs nothing but its road; one that does is given back all.
// Mutation: an image that is shown though it was refused; one that is never disowned.
TEST(HashLogView, AdoptsAndDisowns) {
  for (const bool refuses : {true, false}) {
    testing::FakeGpu gpu;
    gpu.faults.refuse_adoption(refuses);
    HashOptions options;
    gpu.use(&options);
    auto device = exec::open_device(exec::DeviceKind::kCuda, options.device);
    ASSERT_TRUE(device.ok());
    auto backend = make_backend(device.take(), {.name = "test"});
    ASSERT_TRUE(backend.ok());
    const auto view = std::make_shared<LogView>(backend.take());
    {
      SomeLog log(view);
      log.grow(1);
      (void)view->get(log.table());
      const auto tried = [&] { return gpu.faults.refusals() + gpu.faults.adopted(); };
      while (tried() == 0) std::this_thread::yield();
      if (!refuses) wait_for(*view, LogRef::kWindowBytes);
      const LogWindowsPtr windows = view->get(log.table());
      ASSERT_NE(windows, nullptr);
      EXPECT_EQ(view->adopted_bytes(), refuses ? 0 : LogRef::kWindowBytes);
      EXPECT_EQ(gpu.faults.adopted(), refuses ? 0U : 1U);
    }
    view->stop();
    EXPECT_EQ(gpu.faults.adopted(), 0U);
  }
}

// Goal: who comes late with an old table brings no segment back.
// Mutation: windows of any table that somebody asks with.
TEST(HashLogView, LateComersBringNothingBack) {
  const auto view = make_view();
  SomeLog log(view);
  log.grow(1);
  log.grow(1);
  wal::SegmentTablePtr old = log.table();
  (void)view->get(old);
  wait_for(*view, 2 * LogRef::kWindowBytes);
  const std::weak_ptr<wal::Segment> first = log.segments().front();
  log.shrink();
  view->let_go(log.table());
  (void)view->get(old);
  old.reset();
  EXPECT_TRUE(first.expired());
  view->stop();
}

// Goal: images come and go while others are adopted, and while somebody looks.
// Method: threads that map, unmap and look; under the thread sanitizer, too.
// Mutation: an image that goes while it is adopted.
TEST(HashLogView, ManyThreads) {
  const auto view = make_view();
  std::atomic<int> left = 2;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 300; ++i) {
        auto* const image = reinterpret_cast<std::byte*>(((2 * i + t + 1) << 32) + 4096);
        view->map(image, LogRef::kWindowBytes);
        if (i % 3 == 0) std::this_thread::yield();
        view->unmap(image);
      }
      --left;
    });
  }
  threads.emplace_back([&] {
    SomeLog log(view);
    while (left > 0) {
      log.grow(1);
      const LogWindowsPtr windows = view->get(log.table());
      if (log.segments().size() > 4) log.shrink();
      view->let_go(log.table());
    }
    view->stop();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(view->adopted_bytes(), 0U);
}

}  // namespace breccia::hash
