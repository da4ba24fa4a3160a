#include "pmem/sim_region.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace breccia::pmem {
namespace {

using Bytes = std::vector<std::byte>;

void store_word(SimRegion& region, std::uint64_t word, std::uint64_t value) {
  std::memcpy(region.data() + word * kWordBytes, &value, kWordBytes);
}

std::uint64_t word_of(const Bytes& image, std::uint64_t word) {
  std::uint64_t value;
  std::memcpy(&value, image.data() + word * kWordBytes, kWordBytes);
  return value;
}

std::set<Bytes> images_of(SimRegion& region) {
  std::set<Bytes> images;
  region.crash_images().for_each(/*seed=*/1, /*samples=*/100,
                                 [&](const Bytes& image) { images.insert(image); });
  return images;
}

// Goal: a store that nobody persisted may or may not survive; a persisted one does.
// Method: one store, its images before and after persist.
// Mutation: a persist that leaves the line's history, or an enumerator without the durable image.
TEST(PmemSimRegion, StoreMaySurviveUntilPersisted) {
  SimRegion region(128);
  EXPECT_EQ(images_of(region).size(), 1U);
  store_word(region, 3, 7);
  const auto before = images_of(region);
  ASSERT_EQ(before.size(), 2U);
  EXPECT_EQ(word_of(*before.begin(), 3), 0U);
  EXPECT_EQ(word_of(*before.rbegin(), 3), 7U);
  EXPECT_EQ(word_of(region.durable_image(), 3), 0U);
  ASSERT_TRUE(region.persist(24, 8).ok());
  const auto after = images_of(region);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(word_of(*after.begin(), 3), 7U);
}

// Goal: words of one line survive in any order unless their order was noted.
// Method: three stores; with a note after each, only the four prefixes are left.
// Mutation: notes that are ignored give eight images, lines taken whole give two.
TEST(PmemSimRegion, NotesOrderTheStoresOfALine) {
  SimRegion loose(64);
  SimRegion noted(64);
  for (std::uint64_t word = 0; word < 3; ++word) {
    store_word(loose, word, word + 1);
    store_word(noted, word, word + 1);
    noted.note_stores();
  }
  EXPECT_EQ(images_of(loose).size(), 8U);
  const auto prefixes = images_of(noted);
  ASSERT_EQ(prefixes.size(), 4U);
  for (const Bytes& image : prefixes) {
    EXPECT_LE(word_of(image, 2) != 0, word_of(image, 1) != 0);
    EXPECT_LE(word_of(image, 1) != 0, word_of(image, 0) != 0);
  }
}

// Goal: a value that was overwritten before the persist may be what survives.
// Method: two noted values of one word.
// Mutation: keeping only the latest content of a line loses the middle value.
TEST(PmemSimRegion, OverwrittenValueMaySurvive) {
  SimRegion region(64);
  std::set<std::uint64_t> values;
  for (const std::uint64_t value : {5, 6, 0}) {
    store_word(region, 0, value);
    region.note_stores();
  }
  for (const Bytes& image : images_of(region)) values.insert(word_of(image, 0));
  EXPECT_EQ(values, (std::set<std::uint64_t>{0, 5, 6}));
}

// Goal: lines are independent of one another, notes or not.
// Method: a store to line 0, noted, then one to line 1: the later may survive alone.
// Mutation: images as prefixes of the program's order give three.
TEST(PmemSimRegion, LinesAreIndependent) {
  SimRegion region(128);
  store_word(region, 0, 1);
  region.note_stores();
  store_word(region, 8, 1);
  const auto images = images_of(region);
  ASSERT_EQ(images.size(), 4U);
  bool later_alone = false;
  for (const Bytes& image : images) later_alone |= word_of(image, 8) == 1 && word_of(image, 0) == 0;
  EXPECT_TRUE(later_alone);
}

// Goal: the enumeration is complete and counted right, up to its limit and beyond.
// Method: n words in lines of their own: 2^n images, 65,536 at n = 16; 17 are sampled.
// Mutation: an odometer that stops at the first full digit, or < instead of <= at the limit.
TEST(PmemSimRegion, CountsAndExhausts) {
  for (const std::uint64_t lines : {0, 1, 2, 3, 10, 16, 17}) {
    SimRegion region(17 * kLineBytes);
    for (std::uint64_t line = 0; line < lines; ++line) store_word(region, line * 8, 1);
    const CrashImages images = region.crash_images();
    EXPECT_EQ(images.dirty_lines(), lines);
    EXPECT_EQ(images.count(), 1ULL << lines);
    EXPECT_EQ(images.exhaustive(), lines <= 16);
    std::set<std::uint64_t> seen;
    images.for_each(/*seed=*/3, /*samples=*/50, [&](const Bytes& image) {
      std::uint64_t mask = 0;
      for (std::uint64_t line = 0; line < 17; ++line) mask |= word_of(image, line * 8) << line;
      seen.insert(mask);
    });
    if (images.exhaustive()) {
      EXPECT_EQ(seen.size(), 1ULL << lines);
      continue;
    }
    EXPECT_TRUE(seen.count(0) == 1 && seen.count((1U << lines) - 1) == 1);
    for (std::uint64_t line = 0; line < lines; ++line) {
      EXPECT_EQ(seen.count(1U << line), 1U) << "only line " << line;
      EXPECT_EQ(seen.count(((1U << lines) - 1) ^ (1U << line)), 1U) << "all but line " << line;
    }
  }
}

// Goal: a large dirty region is sampled, not enumerated, and its count saturates.
// Method: 1 MiB of stores; every image has each word old or new.
// Mutation: a count that wraps to a small number would run the enumerator for ever.
TEST(PmemSimRegion, LargeRegionsAreSampled) {
  SimRegion region(1 << 20);
  std::memset(region.data(), 0xee, region.size());
  const CrashImages images = region.crash_images();
  EXPECT_EQ(images.count(), CrashImages::kCountMax);
  std::uint64_t visited = 0;
  images.for_each(/*seed=*/1, /*samples=*/4, [&](const Bytes& image) {
    ++visited;
    for (std::uint64_t word = 0; word < image.size() / kWordBytes; word += 61) {
      const std::uint64_t value = word_of(image, word);
      ASSERT_TRUE(value == 0 || value == 0xeeeeeeeeeeeeeeeeULL);
    }
  });
  EXPECT_EQ(visited, 2U + 4 + 3 * 4);
}

// Goal: the last part of a line is enumerated without touching bytes behind the region.
// Method: a region of 65 bytes whose last byte changes.
// Mutation: copying 64 bytes for the last line overruns the image.
TEST(PmemSimRegion, PartialLastLine) {
  SimRegion region(65);
  region.data()[64] = std::byte{1};
  EXPECT_EQ(images_of(region).size(), 2U);
  ASSERT_TRUE(region.persist(64, 1).ok());
  EXPECT_EQ(region.durable_image()[64], std::byte{1});
}

// Goal: the crash point comes before the persist takes effect; events say what it did.
// Method: count images in the callback, read the events afterwards.
// Mutation: a callback after the effect sees one image only.
TEST(PmemSimRegion, CrashPointComesBeforeTheEffect) {
  SimRegion region(256);
  std::vector<std::uint64_t> counts;
  region.on_crash_point([&](const CrashImages& images) { counts.push_back(images.count()); });
  store_word(region, 0, 1);
  store_word(region, 8, 1);
  ASSERT_TRUE(region.persist(0, 8).ok());
  ASSERT_TRUE(region.persist(0, 256).ok());
  ASSERT_TRUE(region.persist(0, 256).ok());
  EXPECT_EQ(counts, (std::vector<std::uint64_t>{4, 2, 1}));
  ASSERT_EQ(region.events().size(), 3U);
  EXPECT_EQ(region.events()[0].lines_changed, 1U);
  EXPECT_EQ(region.events()[1].lines_changed, 1U);
  EXPECT_EQ(region.events()[2].lines_changed, 0U);
}

// Goal: an injected failure makes nothing durable and lasts.
// Method: let one persist pass.
// Mutation: a failure of one call only, or one that still copies the lines.
TEST(PmemSimRegion, FailureIsFinal) {
  SimRegion region(64);
  region.fail_after(1);
  ASSERT_TRUE(region.persist(0, 64).ok());
  store_word(region, 0, 1);
  EXPECT_TRUE(region.persist(0, 64).IsIOError());
  EXPECT_TRUE(region.persist(0, 64).IsIOError());
  EXPECT_EQ(word_of(region.durable_image(), 0), 0U);
}

/// Publishes `count` values: value first, persisted, then the counter that says it is there.
/// With `value_first` false it forgets the persist in between.
void publish(SimRegion& region, std::uint64_t count, bool value_first) {
  for (std::uint64_t i = 1; i <= count; ++i) {
    store_word(region, i * 8, i * 100);
    if (value_first) {
      ASSERT_TRUE(region.persist(i * kLineBytes, kLineBytes).ok());
    }
    store_word(region, 0, i);
    ASSERT_TRUE(region.persist(0, region.size()).ok());
  }
}

std::uint64_t broken_images(bool value_first) {
  SimRegion region(8 * kLineBytes);
  std::uint64_t broken = 0;
  region.on_crash_point([&](const CrashImages& images) {
    images.for_each(/*seed=*/1, /*samples=*/16, [&](const Bytes& image) {
      for (std::uint64_t i = 1; i <= word_of(image, 0); ++i) {
        broken += word_of(image, i * 8) == i * 100 ? 0 : 1;
      }
    });
  });
  publish(region, 6, value_first);
  return broken;
}

// Goal: the harness bites: it finds a missing persist and passes the right order.
// Method: the usual publication of a value by a counter, with and without its first persist.
// Mutation: this is one; any enumerator that keeps the program's order misses it.
TEST(PmemSimRegion, FindsAMissingPersist) {
  EXPECT_EQ(broken_images(/*value_first=*/true), 0U);
  EXPECT_GT(broken_images(/*value_first=*/false), 0U);
}

}  // namespace
}  // namespace breccia::pmem
