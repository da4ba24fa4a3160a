#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "pmem/file_region.h"
#include "pmem/lines.h"
#include "pmem/region.h"
#include "pmem/sim_region.h"

namespace breccia::pmem {
namespace {

using Bytes = std::vector<std::byte>;
namespace fs = std::filesystem;

/// A place where regions of one kind live under a name.
class Place {
 public:
  virtual ~Place() = default;
  virtual Result<std::unique_ptr<Region>> open(const std::string& name, std::uint64_t bytes) = 0;
  virtual void close(const std::string& name, std::unique_ptr<Region> region) = 0;
  /// True if stores that nobody persisted are gone after close().
  [[nodiscard]] virtual bool forgets() const = 0;
};

class FolderPlace : public Place {
 public:
  FolderPlace() {
    std::string name = (fs::temp_directory_path() / "breccia_region_XXXXXX").string();
    BRECCIA_ASSERT(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~FolderPlace() override { fs::remove_all(folder_); }
  void close(const std::string&, std::unique_ptr<Region> region) override { region.reset(); }

 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  fs::path folder_;
};

/// libpmem2 itself on an ordinary file: the forced granularity makes it map, flush and fence as on
/// persistent memory. What it says nothing about is whether the file system is DAX.
class DaxPlace final : public FolderPlace {
 public:
  DaxPlace() { ::setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", /*overwrite=*/1); }
  ~DaxPlace() override { ::unsetenv("PMEM2_FORCE_GRANULARITY"); }
  Result<std::unique_ptr<Region>> open(const std::string& name, std::uint64_t bytes) override {
    return open_dax_region(path(name), bytes);
  }
  bool forgets() const override { return false; }
};

class FilePlace final : public FolderPlace {
 public:
  Result<std::unique_ptr<Region>> open(const std::string& name, std::uint64_t bytes) override {
    return open_file_region(path(name), bytes);
  }
  bool forgets() const override { return true; }
};

/// The file region with a log of a few blocks: nearly every persist writes pages back.
class TinyLogPlace final : public FolderPlace {
 public:
  Result<std::unique_ptr<Region>> open(const std::string& name, std::uint64_t bytes) override {
    return open_file_region_on(real_disk(), path(name), bytes, {2 * kPageBytes});
  }
  bool forgets() const override { return true; }
};

class SimPlace final : public Place {
 public:
  Result<std::unique_ptr<Region>> open(const std::string& name, std::uint64_t bytes) override {
    const auto found = images_.find(name);
    if (found == images_.end()) {
      if (bytes == 0) return Status::NotFound(name);
      return std::unique_ptr<Region>(std::make_unique<SimRegion>(bytes));
    }
    if (bytes != 0 && bytes != found->second.size()) return Status::InvalidArgument(name);
    return std::unique_ptr<Region>(std::make_unique<SimRegion>(found->second));
  }
  void close(const std::string& name, std::unique_ptr<Region> region) override {
    images_[name] = static_cast<SimRegion&>(*region).durable_image();
  }
  bool forgets() const override { return true; }

 private:
  std::map<std::string, Bytes> images_;
};

struct Kind {
  const char* name;
  RegionKind kind;
  std::unique_ptr<Place> (*make)();
};

template <class P>
std::unique_ptr<Place> make_place() {
  return std::make_unique<P>();
}

class PmemRegionConformance : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Region> open(std::uint64_t bytes) {
    auto region = place_->open("r", bytes);
    EXPECT_TRUE(region.ok()) << region.status().ToString();
    return region.ok() ? region.take() : nullptr;
  }
  std::unique_ptr<Region> reopen(std::unique_ptr<Region> region) {
    const std::uint64_t bytes = region->size();
    place_->close("r", std::move(region));
    return open(bytes);
  }
  std::unique_ptr<Place> place_ = GetParam().make();
};

Bytes content_of(Region& region) { return Bytes(region.data(), region.data() + region.size()); }

constexpr std::uint64_t kSizes[] = {1,    7,    8,    63,   64,   65,   127,   128,
                                    4095, 4096, 4097, 8191, 8192, 8193, 65'536};

// Goal: a new region has its size, is aligned and zero.
// Method: sizes around a word, a line and a page.
// Mutation: a size rounded up to pages, or a copy of an old file, fails.
TEST_P(PmemRegionConformance, NewRegionIsZeroAndAligned) {
  for (const std::uint64_t bytes : kSizes) {
    SCOPED_TRACE("bytes=" + std::to_string(bytes));
    auto made = place_->open("new" + std::to_string(bytes), bytes);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Region& region = *made.value();
    EXPECT_EQ(region.kind(), GetParam().kind);
    EXPECT_EQ(region.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % kPageBytes, 0U);
    EXPECT_EQ(content_of(region), Bytes(bytes));
  }
}

// Goal: what was persisted is there after reopening, to the last byte of any size.
// Method: fill regions of all sizes, persist whole, reopen twice.
// Mutation: a checkpoint or redo entry that leaves out the last partial line or page fails.
TEST_P(PmemRegionConformance, PersistedBytesSurviveReopening) {
  for (const std::uint64_t bytes : kSizes) {
    SCOPED_TRACE("bytes=" + std::to_string(bytes));
    const std::string name = "keep" + std::to_string(bytes);
    Bytes expected(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i) expected[i] = std::byte(base::mix64(i) & 0xff);
    for (int pass = 0; pass < 3; ++pass) {
      auto opened = place_->open(name, bytes);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      auto region = opened.take();
      if (pass == 0) {
        std::memcpy(region->data(), expected.data(), bytes);
        ASSERT_TRUE(region->persist(0, bytes).ok());
      }
      ASSERT_EQ(content_of(*region), expected);
      place_->close(name, std::move(region));
    }
  }
}

// Goal: a range of any length at any place is persisted whole.
// Method: lengths 0, 1, 63, 64, 65, 4095, 4096, 4097 at offsets around lines and pages.
// Mutation: a range rounded down at its end, or one that starts at the next line, fails.
TEST_P(PmemRegionConformance, RangesOfAnyLength) {
  constexpr std::uint64_t kBytes = 3 * kPageBytes;
  auto region = open(kBytes);
  Bytes expected(kBytes);
  int value = 0;
  for (const std::uint64_t bytes : {0, 1, 63, 64, 65, 4095, 4096, 4097}) {
    for (const std::uint64_t offset : {0, 1, 8, 63, 64, 65, 4095, 4096, 4097}) {
      SCOPED_TRACE("offset=" + std::to_string(offset) + " bytes=" + std::to_string(bytes));
      std::memset(region->data() + offset, ++value, bytes);
      std::memset(expected.data() + offset, value, bytes);
      ASSERT_TRUE(region->persist(offset, bytes).ok());
      region = reopen(std::move(region));
      ASSERT_NE(region, nullptr);
      ASSERT_EQ(content_of(*region), expected);
    }
  }
  EXPECT_TRUE(region->persist(kBytes, 0).ok());
}

// Goal: a persist makes nothing durable but the lines that it touches, and loses no other store.
// Method: store into three lines, persist the middle one, reopen; a region that forgets has the
// others as they were. Then persist the others from the image that was not reopened.
// Mutation: a file region that writes its pages from image_ instead of shadow_ fails.
TEST_P(PmemRegionConformance, RangesAreIndependent) {
  constexpr std::uint64_t kBytes = 2 * kPageBytes;
  auto region = open(kBytes);
  for (const std::uint64_t line : {10, 11, 12}) {
    std::memset(region->data() + line * kLineBytes, 0x11, kLineBytes);
  }
  ASSERT_TRUE(region->persist(11 * kLineBytes + 20, 3).ok());
  EXPECT_EQ(region->data()[10 * kLineBytes], std::byte{0x11});
  // Enough persists elsewhere to fill a small log.
  for (int i = 1; i <= 5; ++i) {
    std::memset(region->data() + kPageBytes, i, 1);
    ASSERT_TRUE(region->persist(kPageBytes, 1).ok());
  }
  region = reopen(std::move(region));
  ASSERT_NE(region, nullptr);
  const std::byte others = place_->forgets() ? std::byte{0} : std::byte{0x11};
  EXPECT_EQ(region->data()[10 * kLineBytes + 63], others);
  EXPECT_EQ(region->data()[11 * kLineBytes], std::byte{0x11});
  EXPECT_EQ(region->data()[11 * kLineBytes + 63], std::byte{0x11});
  EXPECT_EQ(region->data()[12 * kLineBytes], others);
}

// Goal: one persist takes many ranges: none, empty ones, some that overlap, in any order.
// Method: lists of random ranges; after each the region is reopened and compared.
// Mutation: a persist that takes the first range alone, or that merges ranges with a gap, fails.
TEST_P(PmemRegionConformance, ManyRangesAtOnce) {
  constexpr std::uint64_t kBytes = 4 * kPageBytes + 70;
  base::Random random(5);
  auto region = open(kBytes);
  ASSERT_TRUE(region->persist(std::span<const Range>()).ok());
  Bytes durable(kBytes);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE("round=" + std::to_string(round));
    for (int store = 0; store < 12; ++store) {
      const std::uint64_t bytes = random.below(300);
      std::memset(region->data() + random.below(kBytes - bytes + 1), 1 + round, bytes);
    }
    std::vector<Range> ranges(random.below(7));
    for (Range& range : ranges) {
      range.bytes = random.below(400);
      range.offset = random.below(kBytes - range.bytes + 1);
      const std::uint64_t end = std::min(lines_end(range.offset, range.bytes), kBytes);
      for (std::uint64_t at = line_start(range.offset); at < end; ++at) {
        durable[at] = region->data()[at];
      }
    }
    if (!place_->forgets()) durable = content_of(*region);
    ASSERT_TRUE(region->persist(ranges).ok());
    region = reopen(std::move(region));
    ASSERT_NE(region, nullptr);
    ASSERT_EQ(content_of(*region), durable);
  }
}

// Goal: any number of callers persist at once, and each finds its own durable.
// Method: four threads store and persist in pages of their own; then the region is reopened.
// Mutation: callers that share the record in the making lose lines; tsan names it.
TEST_P(PmemRegionConformance, ConcurrentCallers) {
  constexpr int kCallers = 4;
  constexpr int kRounds = 40;
  auto region = open(kCallers * kPageBytes);
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      const std::uint64_t page = static_cast<std::uint64_t>(caller) * kPageBytes;
      for (int round = 1; round <= kRounds; ++round) {
        std::memset(region->data() + page, round, 100);
        std::memset(region->data() + page + 2000, round, 700);
        const std::array<Range, 2> ranges{{{page + 2000, 700}, {page, 100}}};
        if (!region->persist(ranges).ok()) ++failures;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
  region = reopen(std::move(region));
  ASSERT_NE(region, nullptr);
  for (std::uint64_t page = 0; page < region->size(); page += kPageBytes) {
    for (const std::uint64_t at : {0, 99, 2000, 2699}) {
      EXPECT_EQ(region->data()[page + at], std::byte{kRounds});
    }
  }
}

// Goal: any sequence of stores, persists and reopenings agrees with a vector of bytes.
// Method: 300 random operations per seed; for regions that forget, the model has a durable copy.
// Mutation: a shadow not updated after a persist, or a page left out of a checkpoint, fails.
TEST_P(PmemRegionConformance, RandomOperationsAgreeWithAModel) {
  constexpr std::uint64_t kBytes = 5 * kPageBytes + 100;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed=" + std::to_string(seed));
    base::Random random(seed);
    const std::string name = "model" + std::to_string(seed);
    auto region = place_->open(name, kBytes).take();
    Bytes now(kBytes);
    Bytes durable(kBytes);
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t bytes = random.below(random.one_in(8) ? kBytes : 200);
      const std::uint64_t offset = random.below(kBytes - bytes + 1);
      if (random.one_in(20)) {
        place_->close(name, std::move(region));
        region = place_->open(name, kBytes).take();
        if (place_->forgets()) now = durable;
      } else if (random.one_in(3)) {
        ASSERT_TRUE(region->persist(offset, bytes).ok());
        const std::uint64_t end = std::min(lines_end(offset, bytes), kBytes);
        for (std::uint64_t at = line_start(offset); at < end; ++at) durable[at] = now[at];
      } else {
        const int value = static_cast<int>(random.below(256));
        std::memset(region->data() + offset, value, bytes);
        std::memset(now.data() + offset, value, bytes);
      }
      ASSERT_EQ(content_of(*region), now) << "step " << step;
    }
    place_->close(name, std::move(region));
  }
}

// Goal: a size of 0 opens what is there; a wrong size and a missing region are told apart.
// Method: open with 0 before and after creation, then with other sizes.
// Mutation: growing or truncating an existing file to the asked size fails.
TEST_P(PmemRegionConformance, SizeMustFit) {
  EXPECT_TRUE(place_->open("r", 0).status().IsNotFound());
  auto region = open(5000);
  place_->close("r", std::move(region));
  EXPECT_TRUE(place_->open("r", 4999).status().IsInvalidArgument());
  EXPECT_TRUE(place_->open("r", 5001).status().IsInvalidArgument());
  region = open(0);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->size(), 5000U);
}

// Goal: a range outside the region is a programmer's error.
// Method: ranges that end behind the region, also by wrapping around.
// Mutation: adding offset and bytes before comparing lets the wrapping one pass.
TEST_P(PmemRegionConformance, RangeOutsideDies) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto region = open(4096);
  EXPECT_DEATH((void)region->persist(4097, 0), "assertion failed");
  EXPECT_DEATH((void)region->persist(0, 4097), "assertion failed");
  EXPECT_DEATH((void)region->persist(8, ~0ULL - 4), "assertion failed");
}

INSTANTIATE_TEST_SUITE_P(Kinds, PmemRegionConformance,
                         testing::Values(Kind{"dax", RegionKind::kDax, make_place<DaxPlace>},
                                         Kind{"file", RegionKind::kFile, make_place<FilePlace>},
                                         Kind{"tinylog", RegionKind::kFile,
                                              make_place<TinyLogPlace>},
                                         Kind{"sim", RegionKind::kSim, make_place<SimPlace>}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace breccia::pmem
