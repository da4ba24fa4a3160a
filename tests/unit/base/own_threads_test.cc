#include "base/own_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <mutex>
#include <set>

#include "base/parallel.h"

namespace breccia::base {

// Goal: each part is done once, by a thread of its own where all of them wait for each other.
// Method: parts that go on when all have begun; then none.
// Mutation: with one thread fewer they wait for ever.
TEST(OwnThreads, EachPartHasOne) {
  constexpr std::size_t kParts = 5;
  std::array<std::atomic<int>, kParts> done{};
  std::atomic<std::size_t> begun{0};
  in_own_threads(kParts, [&](std::size_t part) {
    ++done[part];
    ++begun;
    while (begun < kParts) std::this_thread::yield();
  });
  for (const auto& one : done) EXPECT_EQ(one, 1);
  in_own_threads(0, [&](std::size_t) { ++begun; });
  EXPECT_EQ(begun, kParts);
}

// Goal: threads of the background give way to others; who brings the work does not, nor do others.
// Method: the nice values of all threads of both kinds, by Linux.
// Mutation: the caller's own is lowered, or nobody's.
TEST(OwnThreads, OnlyThoseOfTheBackgroundGiveWay) {
  const int own = ::getpriority(PRIO_PROCESS, 0);
  if (own > 9) GTEST_SKIP() << "this process gives way already";
  for (const Urgency urgency : {Urgency::kUsual, Urgency::kBackground}) {
    std::mutex mutex;
    std::multiset<int> seen;
    std::atomic<int> begun{0};
    in_own_threads(
        3,
        [&](std::size_t) {
          {
            const std::lock_guard lock(mutex);
            seen.insert(::getpriority(PRIO_PROCESS, 0));
          }
          ++begun;
          while (begun < 3) std::this_thread::yield();
        },
        urgency);
    const int others = urgency == Urgency::kUsual ? own : own + 10;
    EXPECT_EQ(seen, (std::multiset<int>{own, others, others}));
  }
  EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), own);
}

// Goal: what a thread of the background does it does alone: threads that others get work from later
//   would be of the background, too.
// Method: loops that are shared otherwise, in each part.
// Mutation: without an arena of its own oneTBB's threads take a part of them.
TEST(OwnThreads, OfTheBackgroundWorkAlone) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> begun{0};
  std::atomic<int> strangers{0};
  in_own_threads(
      3,
      [&](std::size_t) {
        ++begun;
        while (begun < 3) std::this_thread::yield();
        const auto own = std::this_thread::get_id();
        if (own == caller) return;
        const std::function<void(int)> look = [&](int i) {
          if (i % 100 == 0) std::this_thread::yield();
          if (std::this_thread::get_id() != own) ++strangers;
        };
        parallel_for(0, 10000, look);
      },
      Urgency::kBackground);
  EXPECT_EQ(strangers, 0);
}

}  // namespace breccia::base
