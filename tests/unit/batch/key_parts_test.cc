#include "batch/key_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "record/key_columns.h"
#include "support/seeds.h"

namespace breccia::batch {

namespace {

constexpr std::uint64_t kSizes[] = {0, 1, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097, 10000};
constexpr std::uint64_t kParts[] = {1, 2, 3, 64, 1000};

/// One of `count` keys, of one length or of several, with heads that tell them apart or do not.
std::string key_of(std::uint64_t id, bool uniform, bool same_heads) {
  const std::uint64_t word = base::mix64(uniform ? id : id / 3);
  std::string key(reinterpret_cast<const char*>(&word), sizeof word);
  if (same_heads) key = "the same" + key;
  return uniform ? key : key + std::string(id % 3, '\0');
}

std::string restored(const record::KeyColumnsRef& keys, std::uint32_t index) {
  std::string key(keys.bytes_at(index), '\0');
  record::restore_key(keys, index, key.data());
  return key;
}

}  // namespace

// Goal: the parts, one behind the other, are the chosen keys in ascending order, each once, and no
//   key is in two of them.
// Method: random keys, few or many distinct ones, of one length or several, with equal or different
//   heads; every list, from none on, has some of them; std::sort of the keys' bytes.
// Mutation: sorting by heads alone, or one place to scatter from for all lists, fails.
TEST(KeyParts, AreAllKeysInOrder) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    for (const std::uint64_t size : kSizes) {
      const bool uniform = random.one_in(2);
      const bool same_heads = random.one_in(2);
      const std::uint64_t distinct = 1 + random.below(random.one_in(2) ? 10 : 2 * size + 1);
      record::KeyColumns columns(exec::plain_host_memory());
      std::vector<std::vector<std::uint32_t>> chosen(random.below(5) + (size > 0 ? 1 : 0));
      std::vector<std::string> expected;
      for (std::uint32_t i = 0; i < size; ++i) {
        const std::string key = key_of(random.below(distinct), uniform, same_heads);
        ASSERT_TRUE(columns.append(key.data(), key.size()));
        if (random.one_in(4)) continue;
        chosen[random.below(chosen.size())].push_back(i);
        expected.push_back(key);
      }
      std::sort(expected.begin(), expected.end());
      const record::KeyColumnsRef keys = columns.ref();
      for (const std::uint64_t count : kParts) {
        SCOPED_TRACE("size " + std::to_string(size) + ", parts " + std::to_string(count));
        KeyParts parts(keys, chosen, count);
        ASSERT_EQ(parts.count(), count);
        std::vector<std::string> found;
        std::vector<std::uint32_t> indexes;
        for (std::uint64_t part = 0; part < count; ++part) {
          const auto sorted = parts.sort(part);
          if (!sorted.empty() && !found.empty()) {
            ASSERT_LT(found.back(), restored(keys, sorted.front().index));
          }
          for (std::size_t i = 0; i < sorted.size(); ++i) {
            found.push_back(restored(keys, sorted[i].index));
            indexes.push_back(sorted[i].index);
            if (i == 0) continue;
            ASSERT_EQ(parts.are_same(sorted[i - 1], sorted[i]),
                      found[found.size() - 2] == found.back());
          }
        }
        ASSERT_EQ(found, expected);
        std::sort(indexes.begin(), indexes.end());
        ASSERT_EQ(std::adjacent_find(indexes.begin(), indexes.end()), indexes.end());
      }
    }
  }
}

// Goal: parts of keys that are all different are of about one size.
// Method: 100,000 keys whose order of arrival has a rhythm as long as the sample's stretches.
// Mutation: a sample at equal distances puts half of the keys into one part.
TEST(KeyParts, AreOfAboutOneSize) {
  constexpr std::uint32_t kKeys = 64 << 10;
  constexpr std::uint64_t kCount = 16;
  record::KeyColumns columns(exec::plain_host_memory());
  std::vector<std::vector<std::uint32_t>> chosen(3);
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    // One key of each stretch, its first one, lies in the lower half of all keys.
    const bool is_first = i % (kKeys / (kCount * 8)) == 0;
    const std::uint64_t word = base::mix64(i) >> 1 | std::uint64_t{!is_first} << 63;
    const std::uint64_t bytes = __builtin_bswap64(word);
    ASSERT_TRUE(columns.append(reinterpret_cast<const char*>(&bytes), sizeof bytes));
    chosen[i * 3 / kKeys].push_back(i);
  }
  KeyParts parts(columns.ref(), chosen, kCount);
  for (std::uint64_t part = 0; part < kCount; ++part) {
    EXPECT_LT(parts.sort(part).size(), 4 * kKeys / kCount) << part;
  }
}

}  // namespace breccia::batch
