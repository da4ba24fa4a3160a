#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "conformance/runs_model.h"
#include "exec/host/host_executor.h"
#include "exec/host/host_memory.h"
#include "runs/algo/runs.cuh"

namespace breccia::runs {
namespace {

/// The host's executor, which says what it sorted by comparisons.
class CountingExecutor : public exec::host::HostExecutor {
 public:
  using HostExecutor::HostExecutor;
  template <class Less>
  Status stable_sort(std::uint32_t* ids, std::uint64_t n, const Less& less) {
    compared += n;
    return HostExecutor::stable_sort(ids, n, less);
  }
  std::uint64_t compared = 0;
};

/// How many entries were sorted by comparisons; their order is checked.
std::uint64_t compared_in_sort(const std::vector<std::string>& keys) {
  exec::host::HostPool pool(1ULL << 30);
  CountingExecutor x(pool);
  const model::Columns columns(exec::plain_host_memory(), keys, true);
  std::vector<std::uint32_t> ids(keys.size());
  EXPECT_TRUE(algo::sort_keys(x, columns.ref(), ids.data()).ok());
  std::vector<std::uint32_t> expected(keys.size());
  std::iota(expected.rbegin(), expected.rend(), 0);
  std::stable_sort(expected.begin(), expected.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
  EXPECT_EQ(ids, expected);
  return x.compared;
}

std::string number(std::uint64_t i) {
  const std::uint64_t mixed = base::mix64(i);
  return {reinterpret_cast<const char*>(&mixed), sizeof mixed};
}

}  // namespace

// Goal: versions of one key are not sorted again: the first sort left them in order.
// Method: keys of which each comes three times, short ones and such as need more than a word.
// Mutation: sorting what is tied, not what is out of order.
TEST(SortKeys, LeavesVersionsAlone) {
  std::vector<std::string> keys;
  std::vector<std::string> longer;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    keys.push_back(number(i % 1000));
    longer.push_back(number(i % 1000) + std::string(i % 1000 % 40, 'x'));
  }
  EXPECT_EQ(compared_in_sort(keys), 0U);
  EXPECT_EQ(compared_in_sort(longer), 0U);
}

// Goal: keys are told apart behind the prefix that they share, however many words that has.
// Method: keys that differ in eight bytes behind prefixes of any length up to 63 words.
// Mutation: a prefix of the first word alone leaves all keys to the comparison sort.
TEST(SortKeys, LooksBehindLongPrefixes) {
  for (const std::size_t bytes : {0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 40, 63, 64, 255, 496}) {
    SCOPED_TRACE(bytes);
    std::vector<std::string> keys;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      keys.push_back(std::string(bytes, 'p') + number(i % 900));
    }
    EXPECT_EQ(compared_in_sort(keys), 0U);
  }
}

// Goal: of ties those that are out of order are sorted whole, and only those.
// Method: a tie in order, one in which the last key belongs to the front, and keys without one.
// Mutation: sorting the neighbours that are out of order alone leaves the first key behind.
TEST(SortKeys, SortsWholeTies) {
  // The last one in arrival order comes first in a tie.
  const std::vector<std::string> keys{"in order3", "in order2", "a",
                                      "in order1", "mixed  .1", "mixed  .3",
                                      "b",         "mixed  .2", "mixed  .2"};
  EXPECT_EQ(compared_in_sort(keys), 4U);
}

// Goal: keys of any shape come out in order, newest version first.
// Method: random batches of keys that share long prefixes, end in zeros, repeat, or are empty.
// Mutation: words of keys that have none, taken for zero bytes that they do have.
TEST(SortKeys, FollowsTheModel) {
  for (const std::uint64_t seed : model::seeds_to_run(200)) {
    SCOPED_TRACE(model::replay(seed));
    base::Random random(seed);
    auto keys = model::random_keys(random, model::random_shape(random), random.below(400));
    const std::string prefix(random.below(600), random.one_in(2) ? '\0' : 'p');
    for (std::string& key : keys) key = prefix + key + std::string(random.below(3), '\0');
    compared_in_sort(keys);
  }
}

}  // namespace breccia::runs
