#include "disagg/client/range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"

/// Ranges of several shards.

namespace breccia::disagg {

namespace {

/// What a shard tells of its keys from one on, up to a limit, and up to so many of a message.
RangeAnswer told_by(const std::map<std::string, Slot>& shard, const std::string& begin,
                    std::uint32_t limit, std::size_t message) {
  RangeAnswer answer;
  for (auto at = shard.lower_bound(begin); at != shard.end(); ++at) {
    if (answer.slots.size() == limit) return answer;
    if (answer.slots.size() == message) {
      answer.is_cut = true;
      return answer;
    }
    answer.slots.push_back(at->second);
    answer.keys.emplace_back(at->first);
  }
  return answer;
}

}  // namespace

// Goal: ranges of shards are, part by part, the range of all keys; each part but the last has as
//   many as are wanted, or says that it is cut, and none is empty that does.
// Method: keys of a model, dealt to shards by chance; messages that have room for few keys.
// Mutation: keys behind what a shard had no room for; a part that is cut and does not say so; more
//   keys than are wanted; keys in the order of shards.
TEST(DisaggRange, ShardsTogetherTellAllInOrder) {
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(1000)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    base::Random random(seed);
    std::map<std::string, Slot> all;
    std::vector<std::map<std::string, Slot>> shards(2 + random.below(4));
    for (std::uint64_t i = random.below(60); i > 0; --i) {
      const std::string key(1 + random.below(3), static_cast<char>('a' + random.below(26)));
      all[key] = i;
    }
    for (const auto& [key, slot] : all) shards[random.below(shards.size())][key] = slot;
    std::vector<Slot> expected, found;
    for (const auto& [key, slot] : all) expected.push_back(slot);
    const auto limit = static_cast<std::uint32_t>(1 + random.below(20));
    const std::size_t message = 1 + random.below(8);
    std::string begin;
    for (bool is_over = false; !is_over;) {
      std::vector<RangeAnswer> told;
      for (const auto& shard : shards) told.push_back(told_by(shard, begin, limit, message));
      bool is_cut = false;
      const std::vector<Slot> part = merge_ranges(told, limit, &is_cut);
      ASSERT_LE(part.size(), limit);
      ASSERT_TRUE(!is_cut || !part.empty());
      is_over = part.size() < limit && !is_cut;
      for (const Slot slot : part) {
        found.push_back(slot);
        begin = std::find_if(all.begin(), all.end(),
                             [slot](const auto& one) { return one.second == slot; })
                    ->first +
                '\0';
      }
    }
    ASSERT_EQ(found, expected);
  }
}

}  // namespace breccia::disagg
