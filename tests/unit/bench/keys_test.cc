#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "bench/audit.h"
#include "bench/key_stream.h"
#include "bench/series.h"

namespace breccia::bench {
namespace {

std::string key_of(const KeySet& set, std::uint64_t number, bool absent) {
  std::string key(set.size_max(), '\0');
  key.resize(absent ? set.write_absent(number, key.data()) : set.write(number, key.data()));
  return key;
}

// Goal: the keys of a set are distinct, and what is to be absent is none of them.
// Method: all keys of sets of each shape and of small and large sizes, and as many others.
// Mutation: a mix that is no bijection, an address that ends with its host, or an absent key of a
//           number of the set fails.
TEST(KeySet, KeysAreDistinct) {
  constexpr std::uint64_t kKeys = 20'000;
  for (const auto* const name : {"seq", "uniform", "ycsb", "prefixed", "urls"}) {
    for (const std::size_t size : {2U, 3U, 8U, 9U, 16U, 40U}) {
      const std::uint64_t keys = size == 2 ? 1 << 15 : kKeys;
      const KeySet set(key_shape(name), size, keys);
      if (!set.check(/*with_absent=*/true).ok()) {
        EXPECT_TRUE(std::string(name) == "prefixed" && size < 16) << name << size;
        continue;
      }
      std::set<std::string> seen;
      for (std::uint64_t i = 0; i < keys; ++i) {
        const std::string key = key_of(set, i, /*absent=*/false);
        ASSERT_TRUE(seen.insert(key).second) << name << " " << size << " " << i;
        ASSERT_LE(key.size(), set.size_max());
      }
      for (std::uint64_t i = 0; i < keys; ++i) {
        ASSERT_FALSE(seen.contains(key_of(set, i, /*absent=*/true))) << name << " " << size;
      }
    }
  }
}

// Goal: keys are what the help says.
// Method: bytes written out; mean sizes; how many of the first eight bytes there are.
// Mutation: mixing `seq`, or prefixes of more than 256 values, fails.
TEST(KeySet, Shapes) {
  EXPECT_EQ(key_of({KeyShape::kSequence, 10, 9}, 5, false),
            std::string("\0\0\0\0\0\0\0\5", 8) + "00");
  EXPECT_EQ(key_of({KeyShape::kSequence, 10, 9}, 5, true),
            std::string("\0\0\0\0\0\0\0\5", 8) + "01");
  EXPECT_EQ(key_of({KeyShape::kYcsb, 16, 9}, 0, false), "user6284781860667377211");
  const KeySet urls(KeyShape::kUrls, 16, 1'000'000);
  EXPECT_EQ(key_of(urls, 7, false).substr(0, 8), "https://");
  EXPECT_GT(urls.size_mean(), 25U);
  EXPECT_LT(urls.size_mean(), 70U);
  const KeySet prefixed(KeyShape::kPrefixed, 16, 5000);
  std::set<std::string> heads;
  for (std::uint64_t i = 0; i < 5000; ++i) heads.insert(key_of(prefixed, i, false).substr(0, 8));
  EXPECT_EQ(heads.size(), 256U);
  EXPECT_EQ(prefixed.size_mean(), 16U);
}

// Goal: sets that do not fit are refused.
// Method: at the limit and one above it.
// Mutation: leaving the absent keys out of the count fails.
TEST(KeySet, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(KeySet(KeyShape::kUniform, 1, 256).check(false).ok());
  EXPECT_TRUE(KeySet(KeyShape::kUniform, 1, 257).check(false).IsInvalidArgument());
  EXPECT_TRUE(KeySet(KeyShape::kUniform, 1, 128).check(true).ok());
  EXPECT_TRUE(KeySet(KeyShape::kUniform, 1, 129).check(true).IsInvalidArgument());
  EXPECT_TRUE(KeySet(KeyShape::kPrefixed, 15, 1).check(false).IsInvalidArgument());
}

// Goal: a permutation gives each number once, and another one with another seed.
// Method: sizes beside powers of two.
// Mutation: giving a number at or above the size back in place of following it fails.
TEST(KeyChoice, PermutationGivesEachOnce) {
  for (const std::uint64_t items : {1U, 2U, 3U, 4U, 5U, 31U, 32U, 33U, 1000U, 65'536U, 65'537U}) {
    const Permutation one(items, 1);
    const Permutation other(items, 2);
    std::set<std::uint64_t> seen;
    std::uint64_t same = 0;
    for (std::uint64_t i = 0; i < items; ++i) {
      ASSERT_LT(one.at(i), items);
      seen.insert(one.at(i));
      if (one.at(i) == other.at(i)) ++same;
    }
    EXPECT_EQ(seen.size(), items);
    EXPECT_LT(same, items / 10 + 6);
  }
}

// Goal: ranks have Zipf's frequencies for other thetas than YCSB's, and the sum is right.
// Method: zeta against its sum; the first two ranks by formula, the first hundred by the sum.
// Mutation: an integral without its ends misses the sum's sixth digit; an alpha of theta fails.
TEST(KeyChoice, ZipfFrequencies) {
  for (const double theta : {0.2, 0.5, 0.8, 0.99}) {
    EXPECT_NEAR(Zipf::zeta_of(300'000, theta) / zeta(0, 300'000, theta), 1, 1e-9);
    constexpr std::uint64_t kItems = 20'000;
    constexpr int kDraws = 200'000;
    const Zipf zipf(kItems, theta);
    base::Random random(7);
    std::map<std::uint64_t, double> share;
    for (int i = 0; i < kDraws; ++i) share[zipf.rank(random.unit())] += 1.0 / kDraws;
    const double total = zeta(0, kItems, theta);
    EXPECT_NEAR(share[0], 1 / total, 5 * std::sqrt(1 / total / kDraws));
    double hundred = 0;
    for (std::uint64_t i = 0; i < 100; ++i) hundred += share[i];
    EXPECT_NEAR(hundred, zeta(0, 100, theta) / total, 0.02);
  }
}

// Goal: about one result in 61 is looked at, and every lane of a warp is among them.
// Method: counts by lane over a batch of a million requests.
// Mutation: taking multiples of 64 leaves 31 lanes out.
TEST(Sampling, CoversEveryLane) {
  const Sampling sampling;
  std::array<std::uint64_t, 32> lanes{};
  for (std::uint64_t i = 0; i < 1 << 20; ++i) {
    if (sampling.takes(i)) ++lanes[i % 32];
  }
  const double mean = (1 << 20) / 61.0 / 32;
  for (const std::uint64_t count : lanes) {
    EXPECT_NEAR(static_cast<double>(count), mean, 5 * std::sqrt(mean));
  }
  EXPECT_TRUE(Sampling{.every = 1}.takes(~0ULL));
}

KeyStream::Config lookups(const ValueSource* values) {
  KeyStream::Config config;
  config.order = Order::kSequence;
  config.keys = KeySet(KeyShape::kUniform, 16, 1000);
  config.values = std::shared_ptr<const ValueSource>(values, [](const ValueSource*) {});
  return config;
}

// Goal: a lookup may have those outcomes that the writes can have left, and no other.
// Method: each history, with right, old, foreign and missing values.
// Mutation: forgetting that a full write hides what was before it, or a deletion, fails.
TEST(Contents, AllowsWhatWasWritten) {
  const ValueSource values(16);
  const auto allows = [&](const Contents& contents, std::uint64_t generation) {
    return contents.allows(values, 5, Status::kOk, values.at(5, generation));
  };
  const auto absent = [&](const Contents& contents) {
    return contents.allows(values, 5, Status::kNotFound, Slice());
  };
  Contents contents;
  EXPECT_TRUE(absent(contents));
  EXPECT_FALSE(allows(contents, 1));
  contents.write_some(1);
  EXPECT_TRUE(absent(contents) && allows(contents, 1));
  contents.write_all(2);
  EXPECT_FALSE(absent(contents) || allows(contents, 1));
  EXPECT_TRUE(allows(contents, 2));
  EXPECT_FALSE(contents.allows(values, 6, Status::kOk, values.at(5, 2)));
  contents.write_some(3);
  EXPECT_TRUE(allows(contents, 2) && allows(contents, 3));
  contents.delete_some();
  EXPECT_TRUE(absent(contents) && allows(contents, 3));
  EXPECT_FALSE(contents.allows(values, 5, Status::kCorruption, Slice()));
  contents.forget();
  EXPECT_TRUE(allows(contents, 9));
  EXPECT_FALSE(Contents::unknown().allows(values, 5, Status::kIOError, Slice()));
}

// Goal: misses are of the share that was asked for, ask for keys that are nowhere, and must miss.
// Method: a stream of a fifth of misses over a set whose every key was written.
// Mutation: allows() that does not know of misses fails.
TEST(KeyStream, Misses) {
  const ValueSource values(16);
  KeyStream::Config config = lookups(&values);
  config.misses = 0.2;
  config.contents.write_all(1);
  const KeyStream stream(config);
  std::set<std::string> present;
  for (std::uint64_t i = 0; i < 1000; ++i) present.insert(key_of(*config.keys, i, false));
  Chunk chunk(stream.key_size_max());
  std::uint64_t misses = 0;
  for_each_request(stream, 0, 10'000, &chunk, [&](std::uint64_t number, const Request& request) {
    const bool there = present.contains(request.key.ToString());
    if (!there) ++misses;
    const Slice value = values.at(number % 1000, 1);
    EXPECT_EQ(stream.allows(number, Status::kOk, value), there);
    EXPECT_EQ(stream.allows(number, Status::kNotFound, Slice()), !there);
  });
  EXPECT_NEAR(static_cast<double>(misses), 2000, 200);
}

// Goal: parts of threads cover a set without one key twice, in both orders, and lookups of one in
//       n lie one in each n neighbours.
// Method: three parts of a thousand keys; blocks of 61.
// Mutation: a part that begins at its own number in place of its place fails.
TEST(KeyStream, PartsCoverTheSet) {
  const ValueSource values(16);
  const auto keys_of = [&](const KeyStream::Config& config, std::uint32_t count) {
    std::vector<std::string> keys;
    const KeyStream stream(config);
    Chunk chunk(stream.key_size_max());
    for_each_request(stream, 0, count, &chunk, [&](std::uint64_t, const Request& request) {
      keys.push_back(request.key.ToString());
    });
    return keys;
  };
  for (const Order order : {Order::kSequence, Order::kEachOnce}) {
    std::set<std::string> seen;
    for (const auto& [first, count] : {std::pair{0U, 334U}, {334U, 334U}, {668U, 332U}}) {
      KeyStream::Config config = lookups(&values);
      config.order = order;
      config.first = first;
      config.count = count;
      for (const std::string& key : keys_of(config, count)) {
        EXPECT_TRUE(seen.insert(key).second);
      }
    }
    EXPECT_EQ(seen.size(), 1000U);
  }
  KeyStream::Config sparse = lookups(&values);
  sparse.keys = KeySet(KeyShape::kSequence, 8, 1000);
  sparse.one_in = 61;
  std::set<std::uint64_t> remainders;
  const auto keys = keys_of(sparse, 17);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t number =
        static_cast<unsigned char>(keys[i][6]) * 256U + static_cast<unsigned char>(keys[i][7]);
    EXPECT_EQ(number / 61, i);
    remainders.insert(number % 61);
  }
  EXPECT_GT(remainders.size(), 10U);
}

// Goal: popular keys are popular, the same for all threads, and lie anywhere.
// Method: two streams of other seeds with theta 0.99; their favourites.
// Mutation: a shuffle by the thread's seed gives other favourites; none gives key 0.
TEST(KeyStream, SkewIsShared) {
  const ValueSource values(16);
  const auto favourite = [&](std::uint64_t seed) {
    KeyStream::Config config = lookups(&values);
    config.keys = KeySet(KeyShape::kSequence, 8, 1000);
    config.order = Order::kRandom;
    config.skew = 0.99;
    config.skew_choices = 5000;
    config.seed = seed;
    config.shuffle_seed = 11;
    const KeyStream stream(config);
    Chunk chunk(stream.key_size_max());
    std::map<std::string, int> count;
    for_each_request(stream, 0, 5000, &chunk, [&](std::uint64_t, const Request& request) {
      ++count[request.key.ToString()];
    });
    const auto most =
        std::max_element(count.begin(), count.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    EXPECT_NEAR(most->second, 5000 / zeta(0, 1000, 0.99), 150);
    return most->first;
  };
  EXPECT_EQ(favourite(1), favourite(2));
  EXPECT_NE(favourite(1), std::string(8, '\0'));
}

// Goal: a second stalls if fewer than half of the median second's requests finished in it.
// Method: by hand.
// Mutation: the mean in place of the median counts no stall here.
TEST(Series, CountsStalls) {
  const Series series = series_of({100, 110, 0, 49, 50, 100, 5000});
  EXPECT_EQ(series.least, 0U);
  EXPECT_EQ(series.median, 100U);
  EXPECT_EQ(series.stalls, 2U);
  EXPECT_EQ(series_of({}).stalls, 0U);
}

}  // namespace
}  // namespace breccia::bench
