#include "hot/roads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "unit/hot/counters.h"

/// Changes of the model while requests go on.

namespace breccia::hot {

namespace {

std::uint64_t hash_of(std::uint64_t key) { return testing::Counters::hash_of(key); }

ModelPtr model_of(const std::vector<std::uint64_t>& keys) {
  std::vector<std::uint64_t> hashes;
  for (const std::uint64_t key : keys) hashes.push_back(hash_of(key));
  return std::make_shared<const HotKeys>(hashes);
}

}  // namespace

// Goal: lookups and writes have the rules of the steps, and none passes while a request of the step
// before is under way.
// Method: a change on a thread of its own, beside a way that is held.
// Mutation: a step that does not wait; copies that go before lookups have left them.
TEST(HotRoads, StepsWaitForConcurrentRequests) {
  std::atomic<bool> is_evicted = false;
  Roads roads([&](const Model&) { is_evicted = true; });
  roads.change(model_of({1}));
  roads.settle();
  is_evicted = false;
  std::thread change;
  {
    const Roads::Way before(roads);
    EXPECT_TRUE(before.looks(hash_of(1)));
    EXPECT_FALSE(before.tells(hash_of(2)));
    change = std::thread([&] {
      roads.change(model_of({2}));
      roads.settle();
    });
    while (!Roads::Way(roads).tells(hash_of(2))) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) {
      const Roads::Way way(roads);
      ASSERT_TRUE(way.looks(hash_of(1)) && way.tells(hash_of(1)) && !way.looks(hash_of(2)));
      std::this_thread::yield();
    }
    EXPECT_FALSE(is_evicted);
  }
  // Who still looks for copies of what is not hot any more finds them: these stay meanwhile. Each
  // is taken before the last one is left.
  std::unique_ptr<Roads::Way> held;
  while (!Roads::Way(roads).looks(hash_of(2))) {
    auto next = std::make_unique<Roads::Way>(roads);
    held = std::move(next);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // The last one may have come just behind the change.
  const bool looks_for_old = held != nullptr && held->looks(hash_of(1));
  EXPECT_FALSE(looks_for_old && is_evicted);
  held.reset();
  change.join();
  EXPECT_TRUE(is_evicted);
  const Roads::Way after(roads);
  EXPECT_TRUE(after.looks(hash_of(2)) && after.tells(hash_of(2)));
  EXPECT_FALSE(after.looks(hash_of(1)) || after.tells(hash_of(1)));
  EXPECT_EQ(roads.changes(), 2U);
}

// Goal: nobody ever finds less than what was acknowledged, however often what is hot changes.
// Method: counters over a map, as requests go: by the cache where they are to; models that flip all
// the time (ThreadSanitizer).
// Mutation: each step of a change left out; copies of keys that are not hot any more that stay, or
//   that their writes leave.
TEST(HotRoads, ConcurrentLookupsAreNeverOlder) {
  constexpr std::uint64_t kKeys = 6;
  constexpr int kTurns = 20'000;
  testing::Counters counters(kKeys, 8);
  Roads roads([&](const Model& next) { counters.copies().evict(next); });
  const auto work = [&](std::uint64_t seed) {
    base::Random random(seed);
    for (int turn = 0; turn < kTurns || roads.changes() < 10; ++turn) {
      const std::uint64_t i = random.below(kKeys);
      const std::uint64_t least = counters.least(i);
      const Roads::Way way(roads);
      const std::uint64_t hash = testing::Counters::hash_of(i);
      seed < 2 && random.one_in(4) ? counters.raise(i, way.tells(hash), way.looks(hash))
                                   : counters.look(i, way.looks(hash), least);
    }
  };
  roads.change(model_of({0, 1, 2}));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) threads.emplace_back(work, t);
  std::atomic<bool> is_over = false;
  std::thread flips([&] {
    base::Random random(9);
    while (!is_over) {
      std::vector<std::uint64_t> keys;
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        if (random.one_in(2)) keys.push_back(i);
      }
      roads.change(model_of(keys));
      if (random.one_in(2)) roads.settle();
    }
  });
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  flips.join();
  EXPECT_GT(counters.hits(), 100U);
}

}  // namespace breccia::hot
