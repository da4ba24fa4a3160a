#include "compaction/decision.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::compaction {
namespace {

constexpr JobSize kLarge = {.bytes = 256 << 20, .entries = 2'000'000, .files = 8};
constexpr Load kIdle = {.has_device = true};

std::uint64_t whole(double micros) { return static_cast<std::uint64_t>(micros); }

/// What RocksDB takes, by the sum of the header.
double rocksdb_micros(const JobSize& size) {
  return 0.35 * static_cast<double>(size.entries) + 0.00175 * static_cast<double>(size.bytes);
}

// Goal: limits and thresholds count before what was learned.
// Method: each at its border.
// Mutation: a comparison that is one off.
TEST(CompactionDecision, Limits) {
  const Costs costs;
  DecisionOptions options;
  options.bytes_min = kLarge.bytes;
  EXPECT_NE(decide(kLarge, kIdle, costs, options).place, Place::kLocal);
  options.bytes_min += 1;
  EXPECT_STREQ(decide(kLarge, kIdle, costs, options).why, decision_reasons::kSmall);
  options = {.jobs_max = 3};
  Load load = kIdle;
  load.running = 2;
  EXPECT_NE(decide(kLarge, load, costs, options).place, Place::kLocal);
  load.running = 3;
  EXPECT_STREQ(decide(kLarge, load, costs, options).why, decision_reasons::kFull);
  options = {.device_files_min = 8};
  EXPECT_EQ(decide(kLarge, kIdle, costs, options).place, Place::kDevice);
  options = {.device_files_min = 9};
  EXPECT_STREQ(decide(kLarge, kIdle, costs, options).why, decision_reasons::kBelowThreshold);
  options = {.device_files_min = 8, .device_bytes_min = kLarge.bytes + 1};
  EXPECT_STREQ(decide(kLarge, kIdle, costs, options).why, decision_reasons::kBelowThreshold);
  EXPECT_STREQ(decide(kLarge, {}, costs, options).why, decision_reasons::kNoDevice);
}

// Goal: without a device the host is asked, if it may be.
// Method: both.
// Mutation: a device that is not there.
TEST(CompactionDecision, NoDevice) {
  const Costs costs;
  EXPECT_EQ(decide(kLarge, {}, costs, {}).place, Place::kHost);
  EXPECT_STREQ(decide(kLarge, {}, costs, {.may_use_host = false}).why, decision_reasons::kNoDevice);
  EXPECT_EQ(decide(kLarge, kIdle, costs, {}).place, Place::kDevice);
}

// Goal: the place that ends first is chosen, with what it waits and what it costs to begin.
// Method: paces that were learned; jobs of each size.
// Mutation: waiting that is not counted.
TEST(CompactionDecision, TheFirstToEnd) {
  Costs costs;
  costs.learn(Place::kLocal, kLarge, whole(rocksdb_micros(kLarge)));
  costs.learn(Place::kHost, kLarge, whole(2 * rocksdb_micros(kLarge)));
  costs.learn(Place::kDevice, kLarge, whole(rocksdb_micros(kLarge) / 5));
  EXPECT_EQ(decide(kLarge, kIdle, costs, {}).place, Place::kDevice);
  Load load = kIdle;
  load.waiting_micros = rocksdb_micros(kLarge);
  EXPECT_STREQ(decide(kLarge, load, costs, {}).why, decision_reasons::kSlower);
  const JobSize small = {.bytes = 10'000, .entries = 100, .files = 2};
  EXPECT_STREQ(decide(small, kIdle, costs, {}).why, decision_reasons::kSlower);
  EXPECT_EQ(decide(small, kIdle, costs, {.weighs_rocksdb = false}).place, Place::kHost);
}

// Goal: paces follow what is measured, whatever that is.
// Method: random jobs at a steady pace, then at another one; absurd measures.
// Mutation: an average that never forgets, or that one measure turns over.
TEST(CompactionDecision, Learns) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Costs costs;
    for (const double pace : {0.1, 3.0, 0.5}) {
      for (int job = 0; job < 50; ++job) {
        const JobSize size = {.bytes = (8 << 20) + random.below(1 << 28),
                              .entries = 100'000 + random.below(1 << 20),
                              .files = 4};
        const double noise = 0.9 + 0.2 * random.unit();
        costs.learn(Place::kDevice, size, whole(3000 + pace * noise * rocksdb_micros(size)));
      }
      EXPECT_NEAR(costs.pace(Place::kDevice), pace, 0.15 * pace);
    }
    costs.learn(Place::kDevice, {}, 17);
    costs.learn(Place::kDevice, kLarge, 0);
    costs.learn(Place::kDevice, kLarge, ~std::uint64_t{0});
    EXPECT_GT(costs.pace(Place::kDevice), 0);
    EXPECT_LT(costs.pace(Place::kDevice), 1000);
    EXPECT_EQ(costs.learned(Place::kDevice), 153U);
  }
}

// Goal: a place that was slow once is tried again, and one that is hopeless is not.
// Method: many jobs elsewhere after one bad measure.
// Mutation: a place that never gets another chance.
TEST(CompactionDecision, TriesAgain) {
  const auto jobs_until_tried = [](double pace) {
    Costs costs;
    costs.learn(Place::kDevice, kLarge, whole(pace * rocksdb_micros(kLarge)));
    int jobs = 0;
    const DecisionOptions options = {.may_use_host = false};
    while (jobs < 1000 && decide(kLarge, kIdle, costs, options).place == Place::kLocal) {
      costs.learn(Place::kLocal, kLarge, whole(rocksdb_micros(kLarge)));
      jobs += 1;
    }
    return jobs;
  };
  EXPECT_GT(jobs_until_tried(1.5), 10);
  EXPECT_LT(jobs_until_tried(1.5), 100);
  EXPECT_EQ(jobs_until_tried(10), 1000);
}

}  // namespace
}  // namespace breccia::compaction
