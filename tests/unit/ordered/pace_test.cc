#include "ordered/background/pace.h"

#include <gtest/gtest.h>

namespace breccia::ordered {
namespace {

constexpr std::uint64_t kMax = 2'000'000;
constexpr std::uint64_t kHalf = kMax / 2;
constexpr std::uint64_t kWrite = 1000;

/// Seconds that one writer takes to fill the log from `in_use` on, which nobody empties.
double filling(Pace* pace, std::uint64_t in_use) {
  const auto begin = Pace::Clock::now();
  auto now = begin;
  for (; in_use + kWrite <= kMax; in_use += kWrite) now = pace->turn(kWrite, in_use, now);
  return std::chrono::duration<double>(now - begin).count();
}

// Goal: writers come to a full log later than flushes that take 1.6 times as long as before.
// Method: half a log a second was flushed; a writer that never waits for anything else.
// Mutation: the same rate up to the end fills it within a second; no least rate, never.
TEST(Pace, SlowsWritersDownBeforeTheyStop) {
  Pace pace(kMax);
  EXPECT_EQ(filling(&pace, 0), 0);  // nothing was flushed yet: nobody knows how fast that is
  pace.note_flushed(kHalf, std::chrono::seconds(1));
  const double seconds = filling(&pace, 0);
  EXPECT_GT(seconds, 1.55);
  EXPECT_LT(seconds, 1.75);
}

// Goal: who has half of the log free is not slowed down, nor who comes behind a flush.
// Method: turns on both sides of the half, and behind a flush.
// Mutation: turns that outlive the flush that they were to stretch until.
TEST(Pace, EndsWithTheFlush) {
  Pace pace(kMax);
  pace.note_flushed(kHalf, std::chrono::seconds(1));
  const auto now = Pace::Clock::now();
  EXPECT_EQ(pace.turn(kHalf, kHalf - 1, now), now);
  EXPECT_EQ(pace.turn(kHalf, kHalf + kHalf / 2, now), now);  // the first waits for nobody
  EXPECT_EQ(pace.turn(1, kHalf + kHalf / 2, now), now + std::chrono::seconds(1));
  pace.note_flushed(kHalf, std::chrono::seconds(3));
  EXPECT_EQ(pace.turn(kHalf / 2, kHalf + kHalf / 2, now), now);
  // Now (1 + 1 / 3) / 2 halves a second.
  EXPECT_EQ(pace.turn(1, kHalf + kHalf / 2, now), now + std::chrono::milliseconds(750));
}

// Goal: turns that nobody waits for do not add up, and a flush of little says nothing of the rate.
// Method: a hundred turns at one time; then a flush of a byte that took an hour.
// Mutation: without the bound the hundredth turn is minutes away; the slow flush makes it hours.
TEST(Pace, TurnsAreNeverFarAway) {
  Pace pace(kMax);
  pace.note_flushed(kHalf, std::chrono::seconds(1));
  const auto now = Pace::Clock::now();
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(pace.turn(kMax, kMax, now), now + std::chrono::seconds(1));
  }
  pace.note_flushed(1, std::chrono::hours(1));
  EXPECT_EQ(pace.turn(kHalf / 4, kHalf + kHalf / 2, now), now);
  EXPECT_EQ(pace.turn(1, kHalf + kHalf / 2, now), now + std::chrono::milliseconds(250));
}

}  // namespace
}  // namespace breccia::ordered
