#include "base/sometimes.h"

#include <gtest/gtest.h>

namespace breccia::base {

namespace {

/// How often in `calls` BRECCIA_SOMETIMES(25) says true.
int hits_of(int calls) {
  int hits = 0;
  for (int i = 0; i < calls; ++i) hits += BRECCIA_SOMETIMES(25) ? 1 : 0;
  return hits;
}

}  // namespace

// Goal: rare roads are taken as often as asked, in builds with invariants alone, and only when they
//       are turned on.
// Method: many draws, on, off, and on again inside.
// Mutation: a switch that a scope's end does not set back, or a constant draw, fails.
TEST(Sometimes, TrueAsOftenAsAsked) {
#if defined(BRECCIA_INVARIANTS)
  constexpr bool kCanBeTrue = true;
#else
  constexpr bool kCanBeTrue = false;
#endif
  constexpr int kCalls = 4000;
  const Sometimes::Scope on(true);
  const int hits = hits_of(kCalls);
  EXPECT_GE(hits, kCanBeTrue ? 800 : 0);
  EXPECT_LE(hits, kCanBeTrue ? 1200 : 0);
  {
    const Sometimes::Scope off(false);
    EXPECT_EQ(hits_of(kCalls), 0);
    const Sometimes::Scope inner(true);
    EXPECT_EQ(hits_of(kCalls) > 0, kCanBeTrue);
  }
  EXPECT_EQ(hits_of(kCalls) > 0, kCanBeTrue);
  EXPECT_FALSE(BRECCIA_SOMETIMES(0));
  EXPECT_EQ(BRECCIA_SOMETIMES(100), kCanBeTrue);
}

}  // namespace breccia::base
