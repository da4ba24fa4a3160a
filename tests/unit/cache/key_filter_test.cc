#include "cache/key_filter.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "cache/miss_meter.h"
#include "support/seeds.h"

namespace breccia::cache {

namespace {

std::shared_ptr<KeyFilter> make_filter(std::uint64_t capacity) {
  auto made = KeyFilter::make(capacity, draw_hash_seed());
  EXPECT_TRUE(made.ok());
  return made.take();
}

std::string key_of(std::uint64_t id) { return "key" + std::to_string(id); }

std::vector<std::uint64_t> hashes_of(const KeyFilter& filter, std::uint64_t begin,
                                     std::uint64_t end) {
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t id = begin; id < end; ++id) hashes.push_back(filter.hash(key_of(id)));
  return hashes;
}

std::uint64_t held(const KeyFilter& filter, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t count = 0;
  for (const std::uint64_t hash : hashes_of(filter, begin, end)) count += filter.may_hold(hash);
  return count;
}

}  // namespace

// Goal: a filter that is full, at ten bits a key, knows all its keys and takes at most 1.5 % of
//   others for such; with twice as many keys it still knows all of them.
// Method: keys that are alike, in sizes from one block to some megabytes.
// Mutation: five probes or bits that depend on each other pass 1.5 %; additions to another block.
TEST(KeyFilter, KnowsItsKeysAndFewOthers) {
  for (const std::uint64_t capacity : {51, 4096, 100'000, 1'000'000}) {
    SCOPED_TRACE(capacity);
    const auto filter = make_filter(capacity);
    EXPECT_EQ(filter->bytes() % 64, 0U);
    EXPECT_LE(filter->bytes(), capacity * 10 / 8 + 64);
    EXPECT_EQ(held(*filter, 0, 100), 0U);
    filter->add(hashes_of(*filter, 0, capacity));
    EXPECT_EQ(held(*filter, 0, capacity), capacity);
    if (capacity > 1000) {
      constexpr std::uint64_t kOthers = 200'000;
      const std::uint64_t wrong = held(*filter, 10'000'000, 10'000'000 + kOthers);
      EXPECT_LT(wrong, kOthers * 15 / 1000);
      EXPECT_GT(wrong, kOthers * 5 / 1000);  // ten bits a key cannot do better
    }
    filter->add(hashes_of(*filter, capacity, 2 * capacity));
    EXPECT_EQ(held(*filter, 0, 2 * capacity), 2 * capacity);
    EXPECT_TRUE(filter->is_full());
  }
}

// Goal: what is added again does not fill a filter; distinct keys do.
// Method: the same keys ten times, then as many others as there is room for, and a tenth more.
// Mutation: counting additions.
TEST(KeyFilter, CountsDistinctKeys) {
  const auto filter = make_filter(10'000);
  for (int time = 0; time < 10; ++time) filter->add(hashes_of(*filter, 0, 5000));
  EXPECT_LE(filter->keys(), 5000U);
  EXPECT_GT(filter->keys(), 4900U);
  EXPECT_FALSE(filter->is_full());
  filter->add(hashes_of(*filter, 5000, 11'000));
  EXPECT_TRUE(filter->is_full());
}

// Goal: no addition is lost beside others and beside lookups, and each is seen by who comes after.
// Method: four threads add keys of their own to a filter of few blocks, and publish how far they
//   are; another looks for what was published.
// Mutation: `word |= mask` loses bits.
TEST(KeyFilter, ConcurrentAdditions) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kKeys = 20'000;
  const auto filter = make_filter(kKeys);
  std::array<std::atomic<std::uint64_t>, kThreads> added{};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t id = 0; id < kKeys; id += 100) {
        const std::uint64_t first = thread * kKeys + id;
        filter->add(hashes_of(*filter, first, first + 100));
        added[thread].store(id + 100, std::memory_order_release);
      }
    });
  }
  base::Random random(1);
  for (bool busy = true; busy;) {
    busy = false;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
      const std::uint64_t count = added[thread].load(std::memory_order_acquire);
      busy = busy || count < kKeys;
      if (count == 0) continue;
      const std::uint64_t id = thread * kKeys + random.below(count);
      ASSERT_TRUE(filter->may_hold(filter->hash(key_of(id)))) << id;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(held(*filter, 0, kThreads * kKeys), kThreads * kKeys);
}

// Goal: the bell rings when the misses are as many as are due, however they come.
// Method: misses in ones and in lots, over the mark and at it; again after a new beginning.
// Mutation: ringing at equality alone, or at every miss.
TEST(MissMeter, RingsWhenDue) {
  const auto news = std::make_shared<FilterNews>();
  MissMeter meter(news);
  const auto rings = [&](std::chrono::seconds within) {
    const auto before = std::chrono::steady_clock::now();
    news->bell.wait_for(within);
    return std::chrono::steady_clock::now() - before < within;
  };
  constexpr std::chrono::seconds kSoon(30);  // on a busy computer, too
  constexpr std::chrono::seconds kWhile(1);
  meter.set_due(10);
  meter.note_misses(9);
  EXPECT_FALSE(meter.is_due());
  EXPECT_FALSE(rings(kWhile));
  meter.note_misses(5);
  EXPECT_TRUE(meter.is_due());
  EXPECT_TRUE(rings(kSoon));
  meter.note_misses(5);
  EXPECT_FALSE(rings(kWhile));
  meter.start_over();
  EXPECT_FALSE(meter.is_due());
  for (int i = 0; i < 10; ++i) meter.note_misses(1);
  EXPECT_TRUE(rings(kSoon));
}

}  // namespace breccia::cache
