#include "base/parallel.h"

#include <gtest/gtest.h>
#include <tbb/task_group.h>

#include <atomic>

namespace breccia::base {
namespace {

// Goal: a loop goes through all of its iterations, also for a caller whose own tasks are cancelled.
// Method: loops in tasks of a group that is cancelled before.
// Mutation: a loop in the caller's context goes through none.
TEST(ParallelFor, IsNotCancelledWithItsCaller) {
  constexpr int kIterations = 1000;
  std::atomic<int> done{0};
  tbb::task_group_context callers;
  tbb::parallel_for(
      0, 1,
      [&](int) {
        EXPECT_TRUE(callers.cancel_group_execution());
        parallel_for(0, kIterations, [&](int) { ++done; });
      },
      callers);
  EXPECT_EQ(done, kIterations);
}

}  // namespace
}  // namespace breccia::base
