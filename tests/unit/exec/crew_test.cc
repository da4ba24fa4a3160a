#include "exec/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace breccia::exec {

// Goal: each part of a job is done once, before run() returns, whoever else has the crew and
//       whether its threads spin or sleep.
// Method: jobs of many sizes from three threads at once, and alone behind pauses that are longer
//         than threads spin; sums that each part adds to.
// Mutation: a part that two take; a job that ends when its last part is taken; threads that do not
//           see a job behind a pause.
TEST(Crew, DoesEachPartOnce) {
  Crew crew(3);
  EXPECT_EQ(crew.size(), 4U);
  const auto run = [&](std::uint32_t parts) {
    std::vector<std::atomic<int>> done(parts);
    crew.run(parts, [&](std::uint32_t part) { ++done[part]; });
    for (const auto& of_part : done) EXPECT_EQ(of_part, 1);
  };
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (std::uint32_t i = 0; i < 300; ++i) run(i % 40);
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (std::uint32_t i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (i % 2 == 0) crew.rouse();
    run(8);
  }
}

// Goal: parts of work are as many as threads, without starting these.
// Method: what is said of the process's crew before and behind its start.
// Mutation: its size without the one that brings a job.
TEST(Crew, SharedSizeIsThatOfTheCrew) {
  const std::uint64_t said = Crew::shared_size();
  EXPECT_GE(said, 2U);
  EXPECT_EQ(Crew::shared().size(), said);
}

}  // namespace breccia::exec
