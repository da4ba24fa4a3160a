#include "ordered/background/pace.h"

#include <gtest/gtest.h>

namespace breccia::ordered {
namespace {

constexpr std::uint64_t kMax = 2'000'000;
constexpr std::uint64_t kHalf = kMax / 2;
constexpr std::uint64_t kWrite = 1000;
constexpr auto kLongest = std::chrono::milliseconds(500);

/// A log of which half was flushed in a second.
Pace of_a_half_a_second(Pace::Clock::time_point now) {
  Pace pace(kMax);
  pace.note_begun(kHalf, now - std::chrono::seconds(1));
  pace.note_ended(/*flushed=*/true, now);
  return pace;
}

/// Seconds that one writer, who does nothing else, takes to fill the log behind a flush that begins
/// when half of it is full and never ends.
double filling(Pace* pace) {
  const auto begin = Pace::Clock::now();
  auto now = begin;
  pace->note_begun(kHalf, begin);
  for (std::uint64_t in_use = kHalf; in_use + kWrite <= kMax; in_use += kWrite) {
    now = std::max(now + std::chrono::microseconds(1), pace->turn(kWrite, in_use, now));
  }
  return std::chrono::duration<double>(now - begin).count();
}

// Goal: writers come to a full log later than flushes that take four times as long as others.
// Method: half a log a second was flushed; a writer that never waits for anything else.
// Mutation: a rate that does not fall as the flush goes on fills it within a second.
TEST(Pace, SlowsWritersDownBeforeTheyStop) {
  Pace pace = of_a_half_a_second(Pace::Clock::now());
  EXPECT_GT(filling(&pace), 4);
}

// Goal: nor do they run into the end of the first flush, of which nobody knows how long it takes.
// Method: the same writer, with no flush before; he could fill the half in a millisecond.
// Mutation: without a rate nobody waits.
TEST(Pace, SlowsWritersDownBehindTheFirstFlush) {
  Pace pace(kMax);
  EXPECT_GT(filling(&pace), 0.1);
}

// Goal: at first writers go as fast as what is left may last until the flush should end.
// Method: a write of a tenth of it at the flush's begin, half-way, and at its expected end.
// Mutation: what has been waited so far is not taken off, or is the only thing that counts.
TEST(Pace, SharesWhatIsLeftUntilTheEnd) {
  for (const auto& [since_ms, wait_ms] : {std::pair{0, 100}, {400, 60}, {1000, 125}}) {
    const auto now = Pace::Clock::now();
    Pace pace = of_a_half_a_second(now);
    pace.note_begun(kHalf, now - std::chrono::milliseconds(since_ms));
    EXPECT_EQ(pace.turn(kHalf / 10, kHalf, now), now);  // half is free: nobody is slowed down
    EXPECT_EQ(pace.turn(kHalf / 10, kHalf, now), now);
    EXPECT_EQ(pace.turn(kHalf / 20, kHalf + kHalf / 2, now), now);  // the first waits for nobody
    const auto turn = pace.turn(1, kHalf + kHalf / 2, now);
    EXPECT_NEAR(std::chrono::duration<double>(turn - now).count(), wait_ms / 1000.0, 1e-4);
  }
}

// Goal: a flush of little is no reason to go fast: what makes room is the one behind it.
// Method: a write at three quarters, half-way through a flush of a hundredth that takes as long as
//   that should, and of one that brings the log back to half.
// Mutation: whatever is flushed is taken for all that is in use.
TEST(Pace, LooksBeyondAFlushOfLittle) {
  const auto now = Pace::Clock::now();
  for (const auto& [flushing, wait_ms] : {std::pair{kHalf / 50, 149.5}, {kHalf / 2, 31.25}}) {
    Pace pace = of_a_half_a_second(now);
    const auto all = std::chrono::duration<double>(static_cast<double>(flushing) / kHalf);
    pace.note_begun(flushing, now - std::chrono::duration_cast<Pace::Clock::duration>(all / 2));
    EXPECT_EQ(pace.turn(kHalf / 20, kHalf + kHalf / 2, now), now);
    const auto turn = pace.turn(1, kHalf + kHalf / 2, now);
    EXPECT_NEAR(std::chrono::duration<double>(turn - now).count(), wait_ms / 1000, 2e-3);
  }
}

// Goal: turns do not outlive the flush that they were to stretch until, and one that failed, or was
//       of little, says nothing of how fast flushes are.
// Method: turns behind flushes that ended so.
// Mutation: keep the turn; count each flush.
TEST(Pace, EndsWithTheFlush) {
  const auto now = Pace::Clock::now();
  Pace pace = of_a_half_a_second(now);
  const auto next = [&] {
    EXPECT_EQ(pace.turn(kHalf / 20, kHalf + kHalf / 2, now), now);
    return std::chrono::duration<double>(pace.turn(1, kHalf + kHalf / 2, now) - now).count();
  };
  EXPECT_NEAR(next(), 0.15, 1e-4);  // of a flush that begins now, with all that is in use
  for (const auto& [bytes, flushed] : {std::pair{std::uint64_t{1}, true}, {kHalf, false}}) {
    pace.note_begun(bytes, now - std::chrono::hours(1));
    pace.note_ended(flushed, now);
    EXPECT_NEAR(next(), 0.15, 1e-4);
  }
  pace.note_begun(kHalf, now - std::chrono::seconds(3));
  pace.note_ended(/*flushed=*/true, now);
  EXPECT_NEAR(next(), 0.225, 1e-4);  // by now (1 + 1 / 3) / 2 halves a second
}

// Goal: turns that nobody waits for do not add up.
// Method: a hundred of the largest writes at one time, into a full log.
// Mutation: without the bound the hundredth turn is minutes away.
TEST(Pace, TurnsAreNeverFarAway) {
  const auto now = Pace::Clock::now();
  Pace pace = of_a_half_a_second(now);
  for (int i = 0; i < 100; ++i) EXPECT_LE(pace.turn(kMax, kMax, now), now + kLongest);
}

}  // namespace
}  // namespace breccia::ordered
