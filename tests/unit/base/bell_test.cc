#include "base/bell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace breccia::base {

// Goal: no ring is lost, whenever it comes.
// Method: threads add work and ring; one takes all there is and waits when there is none.
// Mutation: a wait that forgets what rang before it began hangs.
TEST(Bell, ConcurrentRingsAreHeard) {
  constexpr int kRingers = 3;
  constexpr int kEach = 5'000;
  Bell bell;
  std::atomic<int> waiting{0};
  std::vector<std::thread> ringers;
  for (int i = 0; i < kRingers; ++i) {
    ringers.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) {
        ++waiting;
        bell.ring();
      }
    });
  }
  int done = 0;
  while (done < kRingers * kEach) {
    const int taken = waiting.exchange(0);
    if (taken == 0) bell.wait();
    done += taken;
  }
  for (std::thread& ringer : ringers) ringer.join();
  EXPECT_EQ(done, kRingers * kEach);
}

// Goal: a wait with a limit ends without a ring, and at once with one that came before.
// Method: both.
// Mutation: waiting out the limit in the second case takes an hour.
TEST(Bell, WaitsWithALimit) {
  Bell bell;
  bell.wait_for(std::chrono::milliseconds(1));
  bell.ring();
  bell.wait_for(std::chrono::hours(1));
}

}  // namespace breccia::base
