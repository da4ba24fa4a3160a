#pragma once

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/tally/tally.h"

namespace breccia::testing {

/// Counts random words, many groups in the same places, and hands messages on.
inline void expect_tally(Tally& tally, std::uint64_t seed) {
  base::Random random(seed);
  std::vector<std::uint64_t> words(random.below(20'000));
  std::vector<std::uint64_t> expected(Tally::kCounts);
  for (std::uint64_t& word : words) {
    word = random.next();
    ++expected[word % Tally::kCounts];
  }
  const auto counted = tally.count(words);
  ASSERT_TRUE(counted.ok()) << counted.status().ToString();
  EXPECT_EQ(counted.value(), expected);
  const std::uint64_t groups = 1 + random.below(200);
  const auto sum = tally.hand_on(groups);
  ASSERT_TRUE(sum.ok()) << sum.status().ToString();
  EXPECT_EQ(sum.value(), groups * (groups + 1) / 2);
}

}  // namespace breccia::testing
