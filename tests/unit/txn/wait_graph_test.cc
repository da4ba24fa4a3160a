#include "txn/wait_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::txn {

namespace {

constexpr std::uint64_t kNoLimit = 1000;

/// Whether `to` can be reached from `from`, the slow way.
bool reaches(const std::map<OwnerId, std::vector<OwnerId>>& waits, OwnerId from, OwnerId to,
             std::set<OwnerId>* seen) {
  if (from == to) return true;
  if (!seen->insert(from).second) return false;
  const auto at = waits.find(from);
  if (at == waits.end()) return false;
  return std::any_of(at->second.begin(), at->second.end(),
                     [&](OwnerId next) { return reaches(waits, next, to, seen); });
}

}  // namespace

// Goal: a wait is refused exactly if it closes a cycle, and the cycle that is named is one.
// Method: random waits and ends beside a model that searches by depth.
// Mutation: marking owners as seen across searches, or stopping at the first holder, differs.
TEST(WaitGraph, RefusesCyclesAndNothingElse) {
  for (const std::uint64_t seed : testing::seeds_to_run(50)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    WaitGraph graph;
    std::map<OwnerId, std::vector<OwnerId>> waits;
    int refused = 0;
    for (int step = 0; step < 400; ++step) {
      const OwnerId waiter = random.below(12);
      if (waits.contains(waiter)) {
        graph.stop(waiter);
        waits.erase(waiter);
        continue;
      }
      std::set<OwnerId> drawn;
      while (drawn.empty() || random.one_in(3)) drawn.insert(random.below(12));
      drawn.erase(waiter);
      if (drawn.empty()) continue;
      const std::vector<OwnerId> holders(drawn.begin(), drawn.end());
      const bool closes = std::any_of(holders.begin(), holders.end(), [&](OwnerId holder) {
        std::set<OwnerId> seen;
        return reaches(waits, holder, waiter, &seen);
      });
      const auto cycle = graph.wait(waiter, holders, kNoLimit);
      ASSERT_EQ(cycle.has_value(), closes);
      if (!closes) {
        waits[waiter] = holders;
        continue;
      }
      ++refused;
      waits[waiter] = holders;  // for a moment, to walk the cycle
      ASSERT_FALSE(cycle->limit_exceeded);
      ASSERT_EQ(cycle->owners.back(), waiter);
      OwnerId at = waiter;
      for (const OwnerId next : cycle->owners) {
        EXPECT_NE(std::find(waits[at].begin(), waits[at].end(), next), waits[at].end());
        at = next;
      }
      waits.erase(waiter);
      ASSERT_EQ(graph.waiters(), waits.size());
    }
    EXPECT_GT(refused, 0);
  }
}

// Goal: a search that would look at too many owners is given up, and the wait refused.
// Method: a chain of ten, searched with room for nine, ten and eleven owners.
// Mutation: counting the waiter among the owners, or the last one not, moves the limit.
TEST(WaitGraph, Limit) {
  for (const std::uint64_t owners_max : {9, 10, 11}) {
    WaitGraph graph;
    for (OwnerId i = 1; i < 10; ++i) ASSERT_FALSE(graph.wait(i, {i + 1}, kNoLimit).has_value());
    const auto cycle = graph.wait(100, {1}, owners_max);
    ASSERT_EQ(cycle.has_value(), owners_max < 10);
    if (cycle.has_value()) {
      EXPECT_TRUE(cycle->limit_exceeded);
      EXPECT_TRUE(cycle->owners.empty());
    }
  }
}

}  // namespace breccia::txn
