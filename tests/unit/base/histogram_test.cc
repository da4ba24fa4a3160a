#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace breccia::base {
namespace {

// Goal: every value falls into exactly one bucket, and buckets follow each other without a gap.
// Method: both ends of every bucket are mapped back.
// Mutation: a shift that is off by one at a power of two fails.
TEST(Histogram, BucketsCoverAllValues) {
  std::uint64_t low = 0;
  for (std::size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const std::uint64_t high = Histogram::bucket_max(bucket);
    ASSERT_GE(high, low);
    ASSERT_EQ(Histogram::bucket_of(low), bucket);
    ASSERT_EQ(Histogram::bucket_of(high), bucket);
    ASSERT_LE(high - low, low / 1000) << "three significant digits";
    low = high + 1;
  }
  EXPECT_EQ(low - 1, Histogram::kValueMax);
}

// Goal: percentiles are those of the sorted values, to three digits.
// Method: values over nine powers of ten, compared with a sorted copy.
// Mutation: rounding the wanted rank down fails at small percentiles.
TEST(Histogram, PercentilesAreThoseOfTheSortedValues) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE("seed=" + std::to_string(seed));
    Random random(seed);
    Histogram histogram;
    std::vector<std::uint64_t> values;
    for (int i = 0; i < 20'000; ++i) {
      values.push_back(random.next() >> (24 + random.below(38)));
      histogram.record(values.back());
    }
    std::sort(values.begin(), values.end());
    for (const double percent : {0.1, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
      const auto rank =
          static_cast<std::size_t>(std::ceil(static_cast<double>(values.size()) * percent / 100));
      const double exact = static_cast<double>(values[rank - 1]);
      const auto found = static_cast<double>(histogram.percentile(percent));
      EXPECT_GE(found, exact) << percent;
      EXPECT_LE(found, exact * 1.001 + 1) << percent;
    }
    EXPECT_EQ(histogram.max(), values.back());
    EXPECT_EQ(histogram.min(), values.front());
  }
}

// Goal: merged parts equal the whole, and the difference to an earlier state is what came since.
// Method: two recorders and one that sees both.
// Mutation: a merge that forgets the count shifts every percentile.
TEST(Histogram, MergesAndSubtracts) {
  Histogram first;
  Histogram second;
  Histogram whole;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    first.record(i);
    second.record_many(i * 1000, 2);
    whole.record(i);
    whole.record_many(i * 1000, 2);
  }
  Histogram merged;
  merged.merge(first);
  EXPECT_EQ(merged.count(), 1000U);
  Histogram earlier;
  earlier.merge(merged);
  merged.merge(second);
  EXPECT_EQ(merged.count(), 3000U);
  EXPECT_DOUBLE_EQ(merged.mean(), whole.mean());
  for (const double percent : {1.0, 33.0, 50.0, 99.0}) {
    EXPECT_EQ(merged.percentile(percent), whole.percentile(percent));
    EXPECT_EQ(merged.percentile_since(percent, &earlier), second.percentile(percent));
  }
}

// Goal: an empty histogram answers zero; a value over the range counts as the largest.
// Method: the edges themselves.
// Mutation: leaving out the clamp reads behind the buckets.
TEST(Histogram, Edges) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile(99), 0U);
  EXPECT_EQ(histogram.min(), 0U);
  EXPECT_EQ(histogram.mean(), 0);
  histogram.record(~0ULL);
  EXPECT_EQ(histogram.percentile(50), Histogram::kValueMax);
}

}  // namespace
}  // namespace breccia::base
