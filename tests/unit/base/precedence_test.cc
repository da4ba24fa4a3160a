#include "base/precedence.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/statfs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "support/folder.h"

namespace breccia::base {

namespace {

/// What takes the minute that a test speaks of takes longer.
constexpr std::chrono::seconds kLong{30};
constexpr std::uint64_t kBytesPerMilli = Precedence::kBesideBytesPerSecond / 1000;

}  // namespace

// Goal: nobody waits where nobody goes first, or goes first any more.
// Method: a minute's writes, before, and behind those that went first.
// Mutation: a wait for its turn alone takes the minute.
TEST(Precedence, NobodyWaitsForNobody) {
  Precedence precedence;
  const auto start = Precedence::Clock::now();
  precedence.give_way(60'000 * kBytesPerMilli);
  precedence.give_way(60'000 * kBytesPerMilli);
  {
    const Precedence::First first(&precedence);
    const Precedence::First second(&precedence);
    precedence.give_way(60'000 * kBytesPerMilli);
  }
  precedence.give_way(1);
  const Precedence::First none(nullptr);
  EXPECT_LT(Precedence::Clock::now() - start, kLong);
}

// Goal: there is one for each disk, and none for memory.
TEST(Precedence, DisksHaveOne) {
  const testing::Folder disk(testing::Place::kDisk);
  const testing::Folder memory(testing::Place::kMemory);
  struct statfs about;
  ASSERT_EQ(::statfs(disk.path().c_str(), &about), 0);
  if (about.f_type != TMPFS_MAGIC) {
    ASSERT_NE(Precedence::of_disk(disk.path()), nullptr);
    EXPECT_EQ(Precedence::of_file(disk / "file"), Precedence::of_disk(disk.path()));
    std::filesystem::create_directory(disk / "folder");
    EXPECT_EQ(Precedence::of_disk(disk / "folder"), Precedence::of_disk(disk.path()));
  }
  ASSERT_EQ(::statfs(memory.path().c_str(), &about), 0);
  EXPECT_EQ(Precedence::of_disk(memory.path()) == nullptr, about.f_type == TMPFS_MAGIC);
  EXPECT_EQ(Precedence::of_disk(disk / "not/there"), nullptr);
}

// Goal: beside those that go first the others write so much in all, by however many threads.
// Method: three threads, eight writes of 2 ms each.
// Mutation: a rate for each thread, or writes that pass unseen, take less time.
TEST(Precedence, OthersShareALittle) {
  Precedence precedence;
  const Precedence::First first(&precedence);
  const auto begin = Precedence::Clock::now();
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 3; ++i) {
      writers.emplace_back([&] {
        for (int write = 0; write < 8; ++write) precedence.give_way(2 * kBytesPerMilli);
      });
    }
  }
  // The first one does not wait.
  EXPECT_GE(Precedence::Clock::now() - begin, std::chrono::milliseconds(23 * 2));
}

// Goal: who gives way goes on when the last of those that go first has ended.
// Method: a write whose turn is in a minute.
// Mutation: an end that wakes nobody takes the minute; one that wakes all while another goes first
//   is seen by what the thread has not done yet.
TEST(Precedence, AllGoOnBehindTheLastOne) {
  Precedence precedence;
  auto first = std::make_unique<Precedence::First>(&precedence);
  auto second = std::make_unique<Precedence::First>(&precedence);
  precedence.give_way(60'000 * kBytesPerMilli);
  const auto start = Precedence::Clock::now();
  std::atomic<bool> is_over{false};
  std::jthread writer([&] {
    precedence.give_way(1);
    is_over = true;
  });
  first.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_over);
  second.reset();
  writer.join();
  EXPECT_TRUE(is_over);
  EXPECT_LT(Precedence::Clock::now() - start, kLong);
}

}  // namespace breccia::base
