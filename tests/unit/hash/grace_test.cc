#include "hash/grace.h"

#include <gtest/gtest.h>

#include <optional>

namespace breccia::hash {
namespace {

// Goal: what was taken out is used again when all calls that were under way have ended, and no
// later: not by calls that began afterwards.
// Method: stays that begin and end around moments.
// Mutation: a moment that is over when the oldest call alone has ended.
TEST(Grace, EndsWithTheLastCallThatBeganBefore) {
  Grace grace;
  EXPECT_TRUE(grace.is_over(grace.moment()));
  std::optional<Grace::Stay> first(std::in_place, grace);
  std::optional<Grace::Stay> second(std::in_place, grace);
  const std::uint64_t early = grace.moment();
  const Grace::Stay late_stay(grace);
  EXPECT_FALSE(grace.is_over(early));
  first.reset();
  EXPECT_FALSE(grace.is_over(early));
  const std::uint64_t late = grace.moment();
  second.reset();
  EXPECT_TRUE(grace.is_over(early));
  EXPECT_FALSE(grace.is_over(late));
}

}  // namespace
}  // namespace breccia::hash
