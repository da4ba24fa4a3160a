#include "base/passages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace breccia::base {

// Goal: who waits waits for those who are inside, and not for those who come later.
// Method: one enters on a thread and leaves on another; meanwhile others come and go.
// Mutation: a wait that drains nothing; counters of threads in place of halves.
TEST(Passages, WaitForConcurrentVisitors) {
  Passages passages;
  passages.wait();  // nobody is there
  Passages::Pass pass{};
  std::thread([&] { pass = passages.enter(); }).join();
  std::atomic<bool> has_waited = false;
  std::thread waits([&] {
    passages.wait();
    has_waited = true;
  });
  std::atomic<bool> is_over = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!is_over) const Passages::Inside inside(passages);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_waited);
  passages.leave(pass);
  waits.join();  // though others come all the time
  is_over = true;
  for (std::thread& other : others) other.join();
}

// Goal: who looked which half is in use before somebody waited, and comes later, looks again.
// Method: the step of entering that comes too late, and a wait behind it, which need not wait.
// Mutation: one that does not look again: the next wait does not wait for it.
TEST(Passages, WhoComesTooLateLooksAgain) {
  Passages passages;
  for (int turn = 0; turn < 4; ++turn) {
    const Passages::Pass before = passages.enter();
    passages.leave(before);
    passages.wait();
    ASSERT_FALSE(passages.come(before.half).has_value());
    const auto now = passages.come(1 - before.half);
    ASSERT_TRUE(now.has_value());
    passages.leave(*now);
  }
  passages.wait();
}

// Goal: what was stored before a wait is what everybody sees who is inside behind it.
// Method: a number that readers see twice while they are inside; who raises it waits, and sets what
//   only readers of before may have seen.
// Mutation: a wait that drains the half which comes into use; an entrance that the loads behind it
//   overtake.
TEST(Passages, ConcurrentVisitorsSeeWhatCameBefore) {
  Passages passages;
  std::atomic<std::uint64_t> number{1};
  std::atomic<std::uint64_t> gone{0};  // nobody has this one, or less, any more
  std::atomic<bool> is_over = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!is_over) {
        const Passages::Inside inside(passages);
        const std::uint64_t seen = number.load();
        std::this_thread::yield();
        ASSERT_LT(gone.load(), seen);
      }
    });
  }
  for (std::uint64_t next = 2; next < 2000; ++next) {
    number = next;
    passages.wait();
    gone = next - 1;
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace breccia::base
