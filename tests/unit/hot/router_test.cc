#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/random.h"
#include "hot/model.h"
#include "hot/sketch.h"
#include "hot/trainer.h"
#include "support/seeds.h"

/// What is hot, learned from samples.

namespace breccia::hot {

namespace {

std::uint64_t hash_of(std::uint64_t key) { return base::mix64(key); }

std::vector<std::uint64_t> hashes_of(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> hashes(count);
  for (std::uint64_t i = 0; i < count; ++i) hashes[i] = hash_of(first + i);
  return hashes;
}

/// Keys of which the first is asked for most, the second half as often, and so on.
class Harmonic {
 public:
  Harmonic(std::uint64_t seed, std::uint64_t keys) : random_(seed) {
    double sum = 0;
    for (std::uint64_t key = 1; key <= keys; ++key) {
      sum += 1 / static_cast<double>(key);
      until_.push_back(sum);
    }
  }
  std::uint64_t next() {
    const double at = random_.unit() * until_.back();
    return static_cast<std::uint64_t>(std::lower_bound(until_.begin(), until_.end(), at) -
                                      until_.begin());
  }
  /// Of all requests those to the first `count`.
  [[nodiscard]] double share(std::uint64_t count) const {
    return until_[count - 1] / until_.back();
  }

 private:
  base::Random random_;
  std::vector<double> until_;
};

}  // namespace

// Goal: a sketch never says less than there was, and seldom more.
// Method: keys of skewed frequency, counted exactly besides; halved now and then.
// Mutation: all counters of a key grow; rows that share counters; the largest counter.
TEST(HotSketch, SaysAsOftenAsItWasOrMore) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Harmonic keys(seed, 10'000);
    Sketch sketch(1 << 12);
    std::map<std::uint64_t, std::uint32_t> exact;
    for (int turn = 0; turn < 3; ++turn) {
      for (int i = 0; i < 30'000; ++i) {
        const std::uint64_t key = keys.next();
        ++exact[key];
        ASSERT_GE(sketch.add(hash_of(key)), exact[key]);
      }
      std::uint64_t more = 0;
      for (const auto& [key, times] : exact) more += sketch.count(hash_of(key)) - times;
      EXPECT_LT(more, exact.size()) << "most are exact";
      sketch.halve();
      for (auto& [key, times] : exact) times /= 2;
    }
  }
}

// Goal: counters do not overflow.
// Method: one key, more often than a counter says.
// Mutation: a counter that begins anew.
TEST(HotSketch, CountersEnd) {
  Sketch sketch(2);
  for (std::uint32_t i = 0; i < Sketch::kCountMax + 10; ++i) (void)sketch.add(hash_of(1));
  EXPECT_EQ(sketch.count(hash_of(1)), Sketch::kCountMax);
}

// Goal: all keys of a list are hot, and hardly any other.
// Method: lists of many sizes, beside as many others; keys that all fall into one line.
// Mutation: a tag that is none; lines that overflow; tags of the bits that the line follows from.
TEST(HotModel, HasItsKeysAndFewOthers) {
  for (const std::uint64_t count : {0, 1, 31, 32, 33, 1000, 10'000, 100'000}) {
    const std::vector<std::uint64_t> hot = hashes_of(1, count);
    const HotKeys model(hot);
    EXPECT_EQ(model.size(), count);
    for (const std::uint64_t hash : hot) ASSERT_TRUE(model.is_hot(hash));
    std::uint64_t wrong = 0;
    for (const std::uint64_t hash : hashes_of(1 << 30, 100'000)) wrong += model.is_hot(hash);
    EXPECT_LT(wrong, 60U) << count;
  }
  std::vector<std::uint64_t> same_line(200);
  for (std::uint64_t i = 0; i < same_line.size(); ++i) same_line[i] = i + 1;
  const HotKeys model(same_line);
  EXPECT_TRUE(model.is_hot(same_line.front()));
}

// Goal: what is asked for most is hot, and what was before is not for long.
// Method: skewed requests to 100,000 keys; then others are hot. Shares beside those of the best
// choice.
// Mutation: candidates that never go; counts that do not age; a share of all samples ever.
TEST(HotTrainer, LearnsAndForgets) {
  for (const std::uint64_t seed : testing::seeds_to_run(3)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Harmonic keys(seed, 100'000);
    const TrainerOptions options{.keys_max = 1000, .samples_of_window = 100'000};
    Trainer trainer(options);
    ModelPtr now;
    const auto window = [&](std::uint64_t shift) {
      std::vector<std::uint64_t> samples(1000);
      while (!trainer.is_due()) {
        for (std::uint64_t& one : samples) one = hash_of(keys.next() + shift);
        trainer.add(samples, now.get());
      }
      return trainer.end_window();
    };
    EXPECT_FALSE(trainer.pays(window(0)));
    const Proposal first = window(0);
    EXPECT_TRUE(trainer.pays(first));
    EXPECT_EQ(first.share_now, 0);
    EXPECT_NEAR(first.share, keys.share(1000), 0.05);
    for (std::uint64_t key = 0; key < 100; ++key) EXPECT_TRUE(first.model->is_hot(hash_of(key)));
    now = first.model;
    const Proposal same = window(0);
    EXPECT_FALSE(trainer.pays(same)) << same.share << " for " << same.share_now;
    EXPECT_NEAR(same.share_now, first.share, 0.01);
    constexpr std::uint64_t kShift = 1 << 20;
    int windows = 0;
    ModelPtr last;
    for (; windows < 8; ++windows) {
      const Proposal other = window(kShift);
      last = other.model;
      if (!trainer.pays(other)) continue;
      now = other.model;
      EXPECT_TRUE(windows > 1 || now->is_hot(hash_of(kShift)));
    }
    std::uint64_t of_new = 0;
    std::uint64_t of_old = 0;
    for (std::uint64_t key = 0; key < 200; ++key) {
      of_new += now->is_hot(hash_of(kShift + key));
      of_old += last->is_hot(hash_of(key));
    }
    EXPECT_GT(of_new, 190U);
    EXPECT_LT(of_old, 10U);
    EXPECT_LE(trainer.candidates(), 4 * options.keys_max);
  }
}

// Goal: where all keys are asked for alike no model pays.
// Method: uniform requests; many keys are seen more often than others, by chance.
// Mutation: a share of the samples that a model was made of.
TEST(HotTrainer, NothingIsHotWhereAllIsAlike) {
  base::Random random(1);
  Trainer trainer({.keys_max = 1000, .samples_of_window = 100'000});
  std::vector<std::uint64_t> samples(100'000);
  for (int turn = 0; turn < 4; ++turn) {
    for (std::uint64_t& one : samples) one = hash_of(random.below(1'000'000));
    trainer.add(samples, nullptr);
    const Proposal proposal = trainer.end_window();
    EXPECT_FALSE(trainer.pays(proposal)) << proposal.share;
    EXPECT_LT(proposal.share, 0.005);
  }
}

// Goal: bins are hot with all their keys.
// Method: the bins of ten keys.
// Mutation: a bin beside.
TEST(HotModel, BinsHaveTheirKeys) {
  std::vector<bool> hot(HotBins::kBins);
  for (std::uint64_t key = 0; key < 10; ++key) hot[HotBins::bin_of(hash_of(key))] = true;
  const HotBins model(hot);
  for (std::uint64_t key = 0; key < 1000; ++key) {
    ASSERT_EQ(model.is_hot(hash_of(key)), hot[HotBins::bin_of(hash_of(key))]);
  }
  EXPECT_LE(model.size(), 10U);
}

}  // namespace breccia::hot
