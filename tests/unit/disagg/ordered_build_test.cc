#include "disagg/index/ordered_build.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"

/// The lowest level of an ordered index, made of many keys at once, beside std::sort.

namespace breccia::disagg {
namespace {

using Keys = std::vector<std::pair<std::string, Slot>>;
using MakeKey = std::function<std::string(base::Random*)>;

constexpr std::size_t kBytesMax = 300;

std::string some_bytes(base::Random* random, std::size_t bytes, std::uint64_t values) {
  std::string some(bytes, '\0');
  // Spread, so that a few values of a byte are not all near zero.
  for (char& one : some) one = static_cast<char>(random->below(values) * 255 / (values - 1));
  return some;
}

/// Ways of keys to be divided badly.
std::vector<MakeKey> ways() {
  return {
      // Of all lengths, and any bytes.
      [](base::Random* random) { return some_bytes(random, 1 + random->below(kBytesMax), 256); },
      // One beginning, and numbers behind it that are close to one another.
      [](base::Random* random) {
        const std::string number = std::to_string(random->below(3000));
        return "user" + std::string(16 - number.size(), '0') + number;
      },
      // The same first eight bytes behind a few beginnings: heads are equal, also of splitters.
      [](base::Random* random) {
        const std::string eight(8, static_cast<char>('a' + random->below(3)));
        return eight + some_bytes(random, random->below(20), 4);
      },
      // All heads are equal, and so are most of the bytes behind them.
      [](base::Random* random) {
        return std::string(8 + random->below(kBytesMax - 16), 'h') +
               some_bytes(random, random->below(3), 3);
      },
      // One head is far from all others, so that these are in one part.
      [](base::Random* random) {
        return random->one_in(200) ? some_bytes(random, 9, 256)
                                   : '\0' + std::string(6, '\0') + some_bytes(random, 3, 256);
      },
      // Zeros, which heads are filled with, and nothing but lengths to tell keys apart.
      [](base::Random* random) { return std::string(1 + random->below(kBytesMax), '\0'); },
      [](base::Random* random) { return some_bytes(random, 1 + random->below(9), 2); },
      // Each of them often.
      [](base::Random* random) { return some_bytes(random, 1 + random->below(2), 8); }};
}

/// All keys of the pages, which are in their order, and each of which begins behind the one before.
Keys keys_of(const std::vector<BuiltPage>& pages) {
  Keys keys;
  for (const BuiltPage& one : pages) {
    one.page->check();
    EXPECT_GT(one.page->size(), 0U);
    EXPECT_LE(one.page->size(), OrderedPage::kKeysAtFirst);
    EXPECT_LE(one.separator, one.page->key(0));
    EXPECT_TRUE(keys.empty() || keys.back().first < one.separator);
    for (std::uint32_t i = 0; i < one.page->size(); ++i) {
      keys.emplace_back(one.page->key(i), one.page->word(i));
    }
  }
  return keys;
}

/// One that was there of each key.
void expect_sorted(const Keys& found, Keys keys) {
  std::ranges::sort(keys);
  auto at = keys.begin();
  for (const auto& [key, slot] : found) {
    ASSERT_NE(at, keys.end());
    ASSERT_EQ(key, at->first);
    bool is_there = false;
    for (; at != keys.end() && at->first == key; ++at) is_there = is_there || at->second == slot;
    ASSERT_TRUE(is_there);
  }
  ASSERT_EQ(at, keys.end());
}

}  // namespace

// Goal: pages have all keys, each once, in their order, however many ranges these are divided into
//   and whatever tells them apart; by many threads they are the same as by one.
// Method: some hundred keys, of some of which there are two with different places, in ranges of
//   1 to 100, and in one.
// Mutation: a key that goes to the range before or behind its own, where others of its head, or of
//   its part of the heads, do not; keys of a part that are not sorted, or by heads alone; two keys
//   with one head of which one is left out, or a key that stays twice; heads behind more bytes than
//   all keys have in common; separators that are of other pages, or too short.
TEST(DisaggOrderedBuild, SortsAsStdSortDoes) {
  const std::vector<MakeKey> all = ways();
  for (const std::uint64_t seed : testing::seeds_to_run(100 * all.size())) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const MakeKey& make_key = all[seed % all.size()];
    const std::uint64_t count = random.one_in(10) ? random.below(3) : random.below(1500);
    Keys keys;
    for (std::uint64_t i = 0; i < count; ++i) {
      keys.emplace_back(make_key(&random), 1 + i);
      if (!random.one_in(8)) continue;
      const std::string again = keys[random.below(keys.size())].first;
      keys.emplace_back(again, 1 + count + i);
    }
    std::vector<LooseKeys> parts(1 + random.below(100));
    for (const auto& [key, slot] : keys) parts[random.below(parts.size())].add(key, slot);
    const std::size_t keys_of_range =
        random.one_in(8) ? kKeysOfRange : 1 + random.below(random.one_in(2) ? 100 : 5);
    const auto pages = sorted_pages(parts, /*is_shared=*/false, keys_of_range);
    const Keys found = keys_of(pages);
    expect_sorted(found, keys);
    if (HasFailure()) return;
    const auto shared = sorted_pages(parts, /*is_shared=*/true, keys_of_range);
    ASSERT_EQ(keys_of(shared), found);
    ASSERT_EQ(shared.size(), pages.size());
    for (std::size_t i = 0; i < pages.size(); ++i) {
      ASSERT_EQ(shared[i].separator, pages[i].separator);
      ASSERT_EQ(shared[i].page->size(), pages[i].page->size());
    }
  }
}

// Goal: keys are divided into as many ranges as they are to be, each of about as many keys, also
//   where many have one head.
// Method: ranges of half a page, by the pages that come of them: each is one, or two if it is long.
// Mutation: ranges of a size that nobody asked for; keys of one head that are all in one range.
TEST(DisaggOrderedBuild, RangesAreOfTheirSize) {
  constexpr std::size_t kKeys = 28'000, kOfRange = 28, kParts = 100;
  for (const std::uint64_t seed : testing::seeds_to_run(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    for (const bool are_heads_equal : {false, true}) {
      std::vector<LooseKeys> parts(kParts);
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        const std::string beginning(are_heads_equal ? 8 : 0, random.one_in(2) ? 'a' : 'b');
        parts[i % kParts].add(beginning + std::to_string(base::mix64(random.next())), 1 + i);
      }
      const auto pages = sorted_pages(parts, /*is_shared=*/true, kOfRange);
      EXPECT_EQ(keys_of(pages).size(), kKeys);
      EXPECT_GT(pages.size(), kKeys / kOfRange * 9 / 10);
      // Those of ranges as they are by themselves are mostly full.
      EXPECT_LT(sorted_pages(parts, /*is_shared=*/true).size(),
                kKeys / OrderedPage::kKeysAtFirst * 5 / 4);
    }
  }
}

}  // namespace breccia::disagg
