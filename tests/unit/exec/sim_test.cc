#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "exec/sim/scheduler.h"
#include "exec/sim/sim_group.h"
#include "exec/sim/sim_memory.h"

namespace breccia::exec::sim {
namespace {

constexpr int kLanes = 8;
constexpr std::uint64_t kEmpty = 0;

/// Adds `key` to a table of one row unless it is there. `kReads` 1 is right; 2 reads the row once
/// for each ballot, so that a rival may publish the key in between.
template <int kReads>
bool insert(const SimGroup<kLanes>& group, std::uint64_t* row, std::uint64_t key) {
  for (;;) {
    const auto seen = group.per_lane([&](int lane) { return row[lane]; });
    if (group.ballot([&](int lane) { return seen[lane] == key; }) != 0) return false;
    const LaneMask vacant =
        group.ballot([&](int lane) { return (kReads == 1 ? seen[lane] : row[lane]) == kEmpty; });
    if (vacant == 0) return false;
    const int slot = first_set(vacant);
    const bool won = group.from(slot, [&](int lane) {
      if (row[lane] != kEmpty) return false;
      row[lane] = key;
      return true;
    });
    if (won) return true;
  }
}

/// Rivals insert the same keys into a row; true if some key got there twice.
template <int kReads>
bool finds_duplicate(std::uint64_t seed) {
  std::vector<std::uint64_t> row(kLanes, kEmpty);
  Scheduler scheduler(seed);
  scheduler.run(4, [&](std::uint64_t) {
    const SimGroup<kLanes> group(scheduler);
    for (std::uint64_t key = 1; key <= 2; ++key) (void)insert<kReads>(group, row.data(), key);
  });
  std::multiset<std::uint64_t> keys(row.begin(), row.end());
  return keys.count(1) > 1 || keys.count(2) > 1;
}

// Goal: the simulator finds races between groups.
// Method: an insert that reads its row twice, and one that reads it once, under many seeds.
// Mutation: a scheduler that never switches inside an insert finds nothing.
TEST(SimScheduler, FindsTheSecondRead) {
  std::uint64_t racy = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    racy += finds_duplicate<2>(seed) ? 1 : 0;
    EXPECT_FALSE(finds_duplicate<1>(seed)) << "seed=" << seed;
  }
  EXPECT_GE(racy, 20U) << "of 200 seeds";
}

std::string trace_of(std::uint64_t seed) {
  std::string trace;
  Scheduler scheduler(seed);
  for (int run = 0; run < 3; ++run) {
    scheduler.run(12, [&](std::uint64_t index) {
      for (int step = 0; step < 5; ++step) {
        trace += static_cast<char>('a' + index);
        scheduler.step();
      }
    });
  }
  return trace;
}

// Goal: a seed fixes every switch, other seeds switch elsewhere, and every body runs to its end.
// Method: bodies leave a trace of their steps.
// Mutation: switching by address or time gives two traces for one seed.
TEST(SimScheduler, SeedFixesTheTrace) {
  std::set<std::string> traces;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string trace = trace_of(seed);
    EXPECT_EQ(trace, trace_of(seed));
    EXPECT_EQ(trace.size(), 3U * 12 * 5);
    traces.insert(trace);
  }
  EXPECT_GE(traces.size(), 45U);
}

// Goal: a lane that reads another lane's result, as no device could, is caught.
// Method: a death test.
// Mutation: results as a plain array let it pass.
TEST(SimGroupDeathTest, ReadingAnotherLane) {
  Scheduler scheduler(1);
  const SimGroup<4> group(scheduler);
  const auto value = group.per_lane([](int lane) { return lane; });
  EXPECT_DEATH(group.each_lane([&](int lane) { (void)value[(lane + 1) % 4]; }), "lane");
  EXPECT_DEATH((void)value[0], "lane");
}

// Goal: the simulator's memory knows its own addresses.
// Method: addresses inside, behind and outside of blocks.
// Mutation: comparing with the wrong end.
TEST(SimPool, KnowsItsBlocks) {
  SimPool pool(1 << 20);
  auto* const block = static_cast<std::byte*>(pool.allocate(1000));
  ASSERT_NE(block, nullptr);
  int outside = 0;
  EXPECT_TRUE(pool.owns(block) && pool.owns(block + 999));
  EXPECT_FALSE(pool.owns(block - 1) || pool.owns(&outside) || pool.owns(nullptr));
  EXPECT_EQ(pool.allocate(2 << 20), nullptr);
  pool.release(block, 1000);
}

}  // namespace
}  // namespace breccia::exec::sim
