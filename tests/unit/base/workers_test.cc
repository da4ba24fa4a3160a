#include "base/workers.h"

#include <gtest/gtest.h>

#include <latch>

#include "base/limits.h"

namespace breccia::base {

// Goal: the queue has an end, and closing finishes what was taken and takes no more.
// Method: one thread that is held up, tasks up to the limit and one more, then stop().
// Mutation: a queue without a limit takes the last task.
TEST(Workers, QueueHasAnEnd) {
  Workers workers(1);
  std::latch begun(1);
  std::latch go_on(1);
  std::size_t ran = 0;
  ASSERT_TRUE(workers
                  .submit([&] {
                    begun.count_down();
                    go_on.wait();
                  })
                  .ok());
  begun.wait();
  for (std::size_t i = 0; i < limits::kTasksMax; ++i) {
    ASSERT_TRUE(workers.submit([&] { ++ran; }).ok());
  }
  EXPECT_TRUE(workers.submit([&] { ++ran; }).IsIncomplete());
  go_on.count_down();
  workers.stop();
  EXPECT_EQ(ran, limits::kTasksMax);
  EXPECT_TRUE(workers.submit([&] { ++ran; }).IsShutdownInProgress());
}

}  // namespace breccia::base
