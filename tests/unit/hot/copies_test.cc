#include "hot/copies.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "hot/exchange.h"
#include "unit/hot/counters.h"

/// What copies a cache has, beside a store whose writes take their time.

namespace breccia::hot {

namespace {

std::uint64_t hash_of(const std::string& key) {
  std::uint64_t hash = 7;
  for (const char c : key) hash = base::mix64(hash + static_cast<unsigned char>(c));
  return hash;
}

std::unique_ptr<Copies> make(std::uint64_t keys) {
  auto made = Copies::make(keys);
  EXPECT_TRUE(made.ok());
  return made.take();
}

class Cache {
 public:
  explicit Cache(std::uint64_t keys) : copies_(make(keys)) {}

  [[nodiscard]] Copies& operator*() { return *copies_; }
  [[nodiscard]] Copies* operator->() { return copies_.get(); }
  /// "-": it does not know; "!": there is none.
  std::string find(const std::string& key) {
    std::string value;
    switch (copies_->find(hash_of(key), key, &value)) {
      case Copy::kNone:
        return "-";
      case Copy::kDeleted:
        return "!";
      case Copy::kValue:
        return value;
    }
    return "?";
  }
  void bring(const std::string& key, const std::optional<Slice>& value) {
    const auto lease = copies_->lease(hash_of(key));
    ASSERT_TRUE(lease.has_value());
    copies_->bring(hash_of(key), key, *lease, value);
  }

 private:
  std::unique_ptr<Copies> copies_;
};

}  // namespace

// Goal: up to the moment at which a batch happens its keys have what they had, from there on what
//   it leaves; where it does not happen, nothing has changed.
// Method: two keys that have copies and two that have none, one of which may come, step by step.
// Mutation: copies that go; one that comes though it may not; a batch that failed and is seen.
TEST(HotCopies, ChangeAtTheMomentOfABatch) {
  for (const bool happens : {true, false}) {
    Cache cache(100);
    cache.bring("one", Slice("1"));
    cache.bring("two", Slice("2"));
    const auto lease = cache->lease(hash_of("three"));
    Exchange exchange(&*cache);
    ASSERT_TRUE(exchange.open(1));
    ASSERT_TRUE(exchange.add(0, hash_of("one"), "one", Slice("11"), true));
    ASSERT_TRUE(exchange.add(0, hash_of("two"), "two", std::nullopt, true));
    ASSERT_TRUE(exchange.add(0, hash_of("three"), "three", Slice("33"), true));
    ASSERT_TRUE(exchange.add(0, hash_of("four"), "four", Slice("44"), false));
    exchange.Begin();
    EXPECT_EQ(cache.find("one"), "1");
    EXPECT_EQ(cache.find("two"), "2");
    EXPECT_EQ(cache.find("three"), "-");
    cache->bring(hash_of("three"), "three", *lease, Slice("3"));
    EXPECT_EQ(cache.find("three"), "-");
    const std::uint64_t version = cache->version(hash_of("one"));
    exchange.End(happens);
    EXPECT_NE(cache->version(hash_of("one")), version);
    EXPECT_EQ(cache.find("one"), happens ? "11" : "1");
    EXPECT_EQ(cache.find("two"), happens ? "!" : "2");
    EXPECT_EQ(cache.find("three"), happens ? "33" : "-");
    EXPECT_EQ(cache.find("four"), "-");
    EXPECT_EQ(cache->size(), happens ? 3U : 2U);
  }
}

// Goal: a write that is told of while a batch is under way leaves nothing of either.
// Method: the write begins between the batch's beginning and its end; all that is left is freed
//   (AddressSanitizer).
// Mutation: the batch's end puts a copy back that the write has taken.
TEST(HotCopies, WritesTakeWhatWaitsForABatch) {
  for (const bool happens : {true, false}) {
    Cache cache(100);
    cache.bring("key", Slice("old"));
    const std::uint64_t bytes = cache->bytes();
    Exchange exchange(&*cache);
    ASSERT_TRUE(exchange.open(1));
    ASSERT_TRUE(exchange.add(0, hash_of("key"), "key", Slice("of the batch"), true));
    exchange.Begin();
    const Copies::Write write = cache->begin_write(hash_of("key"), "key");
    EXPECT_EQ(cache.find("key"), "-");
    exchange.End(happens);
    EXPECT_EQ(cache.find("key"), "-");
    cache->end_write(hash_of("key"), "key", write, Slice("new"));
    EXPECT_EQ(cache.find("key"), "-") << "nobody knows which one is the last";
    cache.bring("key", Slice("new"));
    EXPECT_EQ(cache.find("key"), "new");
    EXPECT_EQ(cache->bytes(), bytes);
    Exchange unused(&*cache);
    ASSERT_TRUE(unused.open(1));
    ASSERT_TRUE(unused.add(0, hash_of("key"), "key", Slice("x"), true));
  }
}

// Goal: a copy is there from the end of a write, or from a lookup below, until the next write.
// Method: one key, step by step.
// Mutation: a copy that stays while its key is written; a lease that outlives a write.
TEST(HotCopies, AreThereBetweenWrites) {
  Cache cache(100);
  const std::string key = "key";
  const std::uint64_t hash = hash_of(key);
  EXPECT_EQ(cache.find(key), "-");
  cache.bring(key, Slice("one"));
  EXPECT_EQ(cache.find(key), "one");
  const auto lease = cache->lease(hash);
  ASSERT_TRUE(lease.has_value());
  const Copies::Write write = cache->begin_write(hash, key);
  EXPECT_EQ(cache.find(key), "-");
  EXPECT_FALSE(cache->lease(hash).has_value());
  cache->bring(hash, key, *lease, Slice("one"));
  EXPECT_EQ(cache.find(key), "-");
  cache->end_write(hash, key, write, Slice("two"));
  EXPECT_EQ(cache.find(key), "two");
  cache->bring(hash, key, *lease, Slice("one"));
  EXPECT_EQ(cache.find(key), "two");
  cache->end_write(hash, key, cache->begin_write(hash, key), std::nullopt);
  EXPECT_EQ(cache.find(key), "!");
  EXPECT_EQ(cache->size(), 1U);
  cache->end_write(hash, cache->begin_write(hash, key));
  EXPECT_EQ(cache.find(key), "-");
  EXPECT_EQ(cache->size(), 0U);
  EXPECT_EQ(cache->bytes(), 0U);
}

// Goal: of writes that overlap nobody knows which came last, so none leaves a copy.
// Method: two, in each order of their begins and ends; then a third behind both.
// Mutation: a value of a write that others began behind, or before and have not ended.
TEST(HotCopies, WritesThatOverlapLeaveNone) {
  const std::string key = "key";
  const std::uint64_t hash = hash_of(key);
  for (const bool first_ends_first : {false, true}) {
    Cache cache(100);
    const Copies::Write one = cache->begin_write(hash, key);
    const Copies::Write two = cache->begin_write(hash, key);
    const auto end = [&](bool first) {
      cache->end_write(hash, key, first ? one : two, Slice(first ? "one" : "two"));
    };
    end(first_ends_first);
    EXPECT_EQ(cache.find(key), "-");
    EXPECT_FALSE(cache->lease(hash).has_value());
    end(!first_ends_first);
    EXPECT_EQ(cache.find(key), "-");
    cache->end_write(hash, key, cache->begin_write(hash, key), Slice("three"));
    EXPECT_EQ(cache.find(key), "three");
  }
}

// Goal: keys that are not hot any more go, and a full bucket goes on.
// Method: more keys than there are places; a model of a few of them.
// Mutation: an entry that is left behind; a count that is not kept.
TEST(HotCopies, Evict) {
  Cache cache(1);
  std::vector<std::uint64_t> hot;
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    cache.bring(key, Slice(key));
    EXPECT_EQ(cache.find(key), key);
    if (i >= 98) hot.push_back(hash_of(key));
  }
  EXPECT_LE(cache->size(), 8U);
  cache->evict(HotKeys(hot));
  EXPECT_LE(cache->size(), 2U);
  EXPECT_EQ(cache.find("99"), "99");
  EXPECT_EQ(cache.find("97"), "-");
  cache->evict(HotKeys({}));
  EXPECT_EQ(cache->size(), 0U);
  EXPECT_EQ(cache->bytes(), 0U);
}

// Goal: nobody ever finds less than what was acknowledged before, whoever writes and looks.
// Method: threads that raise and read a few counters through a cache over a map, with models that
// change; each reader compares with what was acknowledged before it began (ThreadSanitizer).
// Mutation: each rule of the four (docs/impl/hot.md) left out.
TEST(HotCopies, ConcurrentLookupsAreNeverOlder) {
  constexpr std::uint64_t kKeys = 6;
  constexpr int kTurns = 20'000;
  testing::Counters counters(kKeys, 4);
  const auto work = [&](std::uint64_t seed) {
    base::Random random(seed);
    for (int turn = 0; turn < kTurns; ++turn) {
      const std::uint64_t i = random.below(kKeys);
      if (seed < 2 && random.one_in(4)) {
        counters.raise(i, /*tells=*/true, /*keeps=*/true);
      } else {
        counters.look(i, /*looks=*/true, counters.least(i));
      }
      if (seed == 3 && random.one_in(500)) counters.copies().evict(HotKeys({}));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(counters.hits(), 1000U);
}

}  // namespace breccia::hot
