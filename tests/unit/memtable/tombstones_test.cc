#include "memtable/tombstones.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::memtable {

namespace {

/// Few keys, so that deletions begin and end at the same ones; among them the empty key, keys that
/// go on with zero bytes, keys that differ behind their eighth byte, and one above all others.
std::string edge_key(base::Random* random) {
  if (random->one_in(20)) return "";
  if (random->one_in(20)) return std::string(3, '\xff');
  std::string key(random->one_in(3) ? 8 : 0, 'p');
  key += std::string(1 + random->below(2), ' ');
  for (char& c : key) c = c == 'p' ? c : static_cast<char>('a' + random->below(4));
  return key + std::string(random->below(2), '\0');
}

/// Range deletions as they were added, with their keys.
struct Model {
  std::deque<std::string> keys;
  std::vector<Tombstone> all;  // positions ascend

  Slice keep(std::string key) { return keys.emplace_back(std::move(key)); }

  /// The newest below `bound` that covers `key`, from all of them.
  [[nodiscard]] std::uint64_t covering(const Slice& key, std::uint64_t bound) const {
    std::uint64_t newest = 0;
    for (const Tombstone& one : all) {
      const bool covers = one.begin.compare(key) <= 0 && key.compare(one.end) < 0;
      if (covers && one.position < bound) newest = std::max(newest, one.position);
    }
    return newest;
  }
};

/// Up to `count_max` deletions behind those of the model.
std::vector<Tombstone> random_tombstones(base::Random* random, std::uint64_t count_max,
                                         Model* model) {
  std::vector<Tombstone> added;
  std::uint64_t position = model->all.empty() ? 0 : model->all.back().position;
  for (std::uint64_t i = random->below(count_max + 1); i > 0; --i) {
    std::string begin = edge_key(random);
    std::string end = edge_key(random);
    if (begin == end) continue;
    if (begin > end) std::swap(begin, end);
    position += 8 * (1 + random->below(3));
    const Slice from = model->keep(std::move(begin));
    added.push_back({from, model->keep(std::move(end)), position});
  }
  model->all.insert(model->all.end(), added.begin(), added.end());
  return added;
}

/// How many range deletions lie to each other.
enum class Shape { kNested, kGrowing, kOverlapping, kApart };
constexpr Shape kShapes[] = {Shape::kNested, Shape::kGrowing, Shape::kOverlapping, Shape::kApart};

/// Where deletion `i` of `count` begins and ends, as numbers of keys.
std::pair<std::uint64_t, std::uint64_t> bounds_of(Shape shape, std::uint64_t i,
                                                  std::uint64_t count) {
  switch (shape) {
    case Shape::kNested:
      return {i, 2 * count - i};
    case Shape::kGrowing:
      return {0, i + 1};
    case Shape::kOverlapping:
      return {3 * i, 3 * i + 1000};
    case Shape::kApart:
      break;
  }
  return {3 * i, 3 * i + 2};
}

/// All bounds and keys that may make a difference.
void expect_as_model(const TombstonesPtr& tombstones, const Model& model) {
  std::vector<std::string> keys{"", std::string(1, '\0'), "zz", std::string(4, '\xff')};
  std::vector<std::uint64_t> bounds{0, 1, ~std::uint64_t{0}};
  for (const Tombstone& one : model.all) {
    for (const std::string& edge : {one.begin.ToString(), one.end.ToString()}) {
      keys.push_back(edge);
      keys.push_back(edge + '\0');
      keys.push_back(edge + "m");
      if (!edge.empty()) keys.push_back(edge.substr(0, edge.size() - 1));
    }
    for (const std::uint64_t off : {0, 1, 8}) bounds.push_back(one.position + off);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const std::uint64_t bound : bounds) {
    CoverCursor cursor(tombstones.get(), bound);
    for (const std::string& key : keys) {
      const std::uint64_t expected = model.covering(key, bound);
      SCOPED_TRACE(Slice(key).ToString(/*hex=*/true) + " below " + std::to_string(bound));
      ASSERT_EQ(tombstones == nullptr ? 0 : tombstones->covering(key, bound), expected);
      const Cover& cover = cursor.at(key);
      ASSERT_EQ(cover.position, expected);
      ASSERT_TRUE(tombstones == nullptr || cover.has(key));
      ASSERT_TRUE(expected == 0 || cover.has_end);
    }
  }
}

}  // namespace

// Goal: of overlapping range deletions, the newest below the bound that covers a key is found, for
//   every key and every bound, however they were added and some taken away; for the stretch of keys
//   that a lookup names as well.
// Method: random deletions with few edges, added in batches of all sizes; keys at, before and
//   behind all edges in order, and all bounds, compared with a look at each deletion.
// Mutation: closing a deletion behind its end key, taking the oldest, `<=` for the bound, a stretch
//   of the oldest set alone, joining sets in the wrong order, or keys that do not begin as all
//   edges do on the wrong side of them, fails.
TEST(Tombstones, CoveringAgreesWithAllOfThem) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Model model;
    TombstonesPtr tombstones;
    for (std::uint64_t batches = 1 + random.below(6); batches > 0; --batches) {
      tombstones = Tombstones::with(tombstones,
                                    random_tombstones(&random, random.one_in(3) ? 12 : 2, &model));
      if (!model.all.empty() && random.one_in(4)) {
        const std::uint64_t from = 1 + random.below(model.all.back().position + 8);
        tombstones = Tombstones::from(tombstones, from);
        std::erase_if(model.all, [&](const Tombstone& one) { return one.position < from; });
      }
      ASSERT_EQ(tombstones == nullptr ? 0 : tombstones->size(), model.all.size());
      expect_as_model(tombstones, model);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Goal: what is walked over are those from a position on, in order; what is flushed covers the same
//          keys as all below a position, without a range that touches another.
// Method: random deletions in batches; every position; every key.
// Mutation: joining ranges that do not touch, or leaving those apart that do, fails.
TEST(Tombstones, WalksAndRanges) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Model model;
    TombstonesPtr tombstones;
    while (model.all.empty() || !random.one_in(4)) {
      tombstones = Tombstones::with(tombstones, random_tombstones(&random, 5, &model));
    }
    for (std::uint64_t at = 0; at <= model.all.back().position + 8; at += 4) {
      std::vector<std::uint64_t> walked;
      tombstones->for_each(at, [&](const Tombstone& one) {
        walked.push_back(one.position);
        return true;
      });
      std::vector<std::uint64_t> expected;
      for (const Tombstone& one : model.all) {
        if (one.position >= at) expected.push_back(one.position);
      }
      ASSERT_EQ(walked, expected);
      const auto ranges = tombstones->covered_ranges(at);
      for (std::size_t i = 1; i < ranges.size(); ++i) {
        ASSERT_LT(ranges[i - 1].second.compare(ranges[i].first), 0);
      }
      for (const std::string& key : model.keys) {
        for (const std::string& near : {key, key + '\0', "a" + key}) {
          const bool covered = std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
            return range.first.compare(near) <= 0 && Slice(near).compare(range.second) < 0;
          });
          ASSERT_EQ(covered, model.covering(near, at) != 0);
        }
      }
    }
  }
}

// Goal: many threads may be the first to look a key up.
// Method: sets that nobody has looked at, and four threads at once; under ThreadSanitizer, too.
// Mutation: building the tree without the flag is a race.
TEST(Tombstones, FirstLookupsAtOnce) {
  base::Random random(1);
  Model model;
  for (int round = 0; round < 50; ++round) {
    const TombstonesPtr tombstones =
        Tombstones::with(nullptr, random_tombstones(&random, 50, &model));
    if (tombstones == nullptr) continue;
    const std::string key = edge_key(&random);
    std::uint64_t found[4] = {};
    std::vector<std::thread> threads;
    for (std::uint64_t& own : found) {
      threads.emplace_back([&] { own = tombstones->covering(key, ~std::uint64_t{0}); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::uint64_t own : found) EXPECT_EQ(own, found[0]);
  }
}

// Goal: a lookup behind many range deletions takes O(log n) steps, however they lie to each other;
//          one of the present takes no more than the search for its stretch in each set.
// Method: nested, growing, overlapping and apart, in scattered order, added one by one, their keys
//          alike in the first bytes; steps of lookups of the present and of the past. Sets of which
//          each is eight times as large as the next add up to 4 log2(2 n).
// Mutation: walking to the root for lookups of the present fails.
TEST(Tombstones, ProbesPerLookup) {
  for (const std::uint64_t count : {100, 10'000, 100'000}) {
    for (const Shape shape : kShapes) {
      SCOPED_TRACE(fmt::format("{} of shape {}", count, static_cast<int>(shape)));
      const auto key = [](std::uint64_t number) { return fmt::format("a table {:012}", number); };
      base::Random random(count);
      Model model;
      TombstonesPtr tombstones;
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t at = 7'919 * i % count;  // a prime: all of them, in scattered order
        const auto [begin, end] = bounds_of(shape, at, count);
        const Slice from = model.keep(key(begin));
        tombstones = Tombstones::with(tombstones, {{from, model.keep(key(end)), 8 * (i + 1)}});
      }
      const double depth = std::log2(2 * static_cast<double>(count));
      std::uint64_t most_now = 0;
      std::uint64_t most_then = 0;
      for (int i = 0; i < 2000; ++i) {
        const std::string sought = key(random.below(3 * count + 1000));
        std::uint64_t now = 0;
        std::uint64_t then = 0;
        (void)tombstones->covering(sought, ~std::uint64_t{0}, &now);
        (void)tombstones->covering(sought, 8 * random.below(count), &then);
        most_now = std::max(most_now, now);
        most_then = std::max(most_then, then);
      }
      EXPECT_LE(static_cast<double>(most_now), 5 * depth);
      EXPECT_LE(static_cast<double>(most_then), 10 * depth);
    }
  }
}

// Goal: a hundred thousand range deletions, one by one, cost about the same for each, however they
//   lie to each other, looked at after every thousandth or not.
// Method: nested, growing, overlapping and apart; the time in all. A second would be ten times what
//   is needed; one set that is cut anew for each would take hours.
// Mutation: positions of all that cover a stretch noted there take quadratic memory.
TEST(Tombstones, AHundredThousand) {
  constexpr std::uint64_t kCount = 100'000;
  const auto key = [](std::uint64_t number) { return fmt::format("{:08}", number); };
  for (const Shape shape : kShapes) {
    SCOPED_TRACE(static_cast<int>(shape));
    Model model;
    std::vector<Tombstone> all;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const auto [begin, end] = bounds_of(shape, i, kCount);
      const Slice from = model.keep(key(begin));
      all.push_back({from, model.keep(key(end)), 8 * (i + 1)});
    }
    const auto start = std::chrono::steady_clock::now();
    TombstonesPtr tombstones;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      tombstones = Tombstones::with(tombstones, {all[i]});
      if (i % 1000 != 0) continue;
      ASSERT_EQ(tombstones->covering(all[i].begin, ~std::uint64_t{0}), all[i].position);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 30.0);
  }
}

}  // namespace breccia::memtable
