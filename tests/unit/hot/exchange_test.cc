#include "hot/exchange.h"

#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "hot/copies.h"
#include "hot/roads.h"
#include "record/keyed_hash.h"
#include "support/seeds.h"

/// What large batches leave of hot keys.

namespace breccia::hot {

namespace {

const record::HashSeed kSeed{.start = base::mix64(5), .factor = base::mix64(7) | 1};

std::uint64_t hash_of(const std::string& key) {
  return record::keyed_hash(key.data(), key.size(), kSeed);
}

std::string key_of(std::uint64_t i) {
  std::string key = std::to_string(i);
  return key.insert(0, 8 - key.size(), 'k');
}

}  // namespace

// Goal: of each hot key a batch leaves what its last write says, however many of them there are and
//   into how many parts they go; of other keys nothing.
// Method: batches of a few and of some thousand writes, many of one key, some deletions; values
//   that are all numbers, and others; beside a map.
// Mutation: the first write of a key that counts; a part whose writes nobody adds, or whose changes
//   nobody begins or ends.
TEST(HotExchange, LastWritesOfLargeBatches) {
  constexpr std::uint64_t kKeys = 5000;
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t i = 0; i < kKeys; i += 2) hashes.push_back(hash_of(key_of(i)));
  for (const std::uint64_t seed : testing::seeds_to_run(12)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    auto made = Copies::make(kKeys);
    ASSERT_TRUE(made.ok());
    Copies& copies = *made.value();
    Roads roads([](const Model&) {});
    const auto model = std::make_shared<const HotKeys>(hashes);
    roads.change(model);
    const std::size_t value_bytes = seed % 2 == 0 ? 8 : 11;
    const std::uint64_t writes = seed % 3 == 0 ? 50 : 20'000;
    std::map<std::string, std::optional<std::string>> last;
    Batch batch;
    for (std::uint64_t i = 0; i < writes; ++i) {
      const std::string key = key_of(random.one_in(4) ? random.below(3) : random.below(kKeys));
      std::string value = std::to_string(i);
      value.insert(0, value_bytes - value.size(), '0');
      const bool deletes = seed % 4 != 0 && random.one_in(10);
      ASSERT_TRUE((deletes ? batch.Delete(key) : batch.Put(key, value)).ok());
      last[key] = deletes ? std::nullopt : std::optional(value);
    }
    {
      const Roads::Way way(roads);
      Exchange exchange(&copies);
      ASSERT_TRUE(add_writes(way, *batch.requests().writes().front(), kSeed, 100, &exchange));
      exchange.Begin();
      exchange.End(/*happens=*/true);
    }
    std::uint64_t hot = 0, there = 0;
    for (const auto& [key, value] : last) {
      std::string found;
      const Copy copy = copies.find(hash_of(key), key, &found);
      if (!model->is_hot(hash_of(key))) {
        ASSERT_EQ(copy, Copy::kNone) << key;
        continue;
      }
      ++hot;
      if (copy != Copy::kNone) {
        ++there;
        ASSERT_EQ(copy, value.has_value() ? Copy::kValue : Copy::kDeleted) << key;
        ASSERT_EQ(found, value.value_or("")) << key;
      }
    }
    EXPECT_GE(there + 5, hot);  // a bucket may have been full
    EXPECT_GT(hot, last.size() / 3);
  }
}

}  // namespace breccia::hot
