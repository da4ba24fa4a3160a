#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "pmem/file_region.h"
#include "pmem/lines.h"
#include "pmem/page_memory.h"
#include "pmem/region.h"
#include "support/folder.h"

/// File regions over the caller's memory, on the real file system. Power cuts:
/// tests/crash/pmem_file_region_over_crash_test.cc.

namespace breccia::pmem {
namespace {

using Bytes = std::vector<std::byte>;

/// Memory to lend, zeros at first.
class Lendable {
 public:
  explicit Lendable(std::uint64_t bytes)
      : memory_(PageMemory::allocate(bytes).take()), bytes_(bytes) {}
  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.data(), bytes_}; }
  [[nodiscard]] Bytes content() { return Bytes(bytes().begin(), bytes().end()); }

 private:
  PageMemory memory_;
  std::uint64_t bytes_;
};

class PmemFileRegionOver : public ::testing::Test {
 protected:
  /// A region whose log has room for two or three small records.
  Result<std::unique_ptr<Region>> open_with_tiny_log(Lendable& lendable) const {
    return open_file_region_on(real_disk(), path_, lendable.bytes().size(),
                               {3 * kPageBytes, lendable.bytes()});
  }

  testing::Folder folder_{testing::Place::kMemory};
  const std::string path_ = folder_ / "region";
};

// Goal: the region works in the memory that it is given, and what was persisted is there when it is
// opened over other memory.
// Method: sizes around a line, a page and the checkpoint's buffer, first with a log for all, then
// with one so small that the second persist writes all pages back.
// Mutation: a checkpoint that drops the rest of a run that its buffer cannot hold fails, and so
// does a persist without its last line.
TEST_F(PmemFileRegionOver, PersistedBytesSurviveReopening) {
  const std::uint64_t mib = 1ULL << 20;
  for (const std::uint64_t bytes :
       {kLineBytes, 2 * kLineBytes, kPageBytes - kLineBytes, kPageBytes, kPageBytes + kLineBytes,
        mib - kPageBytes, mib, mib + kLineBytes, 3 * mib + kPageBytes}) {
    SCOPED_TRACE("bytes=" + std::to_string(bytes));
    const std::string path = path_ + std::to_string(bytes);
    Bytes expected(bytes);
    for (std::uint64_t redo_bytes_max : {64 * mib, kPageBytes}) {
      Lendable lendable(bytes);
      auto region =
          open_file_region_on(real_disk(), path, bytes, {redo_bytes_max, lendable.bytes()});
      ASSERT_TRUE(region.ok()) << region.status().ToString();
      EXPECT_EQ(region.value()->data(), lendable.bytes().data());
      EXPECT_EQ(region.value()->size(), bytes);
      ASSERT_EQ(lendable.content(), expected);
      for (std::uint64_t i = 0; i < bytes; ++i) {
        lendable.bytes()[i] = std::byte(base::mix64(i + redo_bytes_max) & 0xff);
      }
      ASSERT_TRUE(region.value()->persist(0, bytes).ok());
      ASSERT_TRUE(region.value()->persist(0, 1).ok());
      expected = lendable.content();
    }
    Lendable lendable(bytes);
    ASSERT_TRUE(open_file_region_over(path, lendable.bytes()).ok());
    ASSERT_EQ(lendable.content(), expected);
  }
}

// Goal: one persist takes many ranges, and a region may be closed and opened at any time.
// Method: random stores and lists of ranges; after each the region is opened over other memory. Its
// log was empty, so no checkpoint has written what nobody persisted: only what was is there.
// Mutation: a persist that takes the first range alone fails.
TEST_F(PmemFileRegionOver, ManyRangesAtOnce) {
  constexpr std::uint64_t kBytes = 4 * kPageBytes + 2 * kLineBytes;
  base::Random random(5);
  Bytes durable(kBytes);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE("round=" + std::to_string(round));
    Lendable lendable(kBytes);
    auto region = open_with_tiny_log(lendable);
    ASSERT_TRUE(region.ok());
    ASSERT_EQ(lendable.content(), durable);
    for (int store = 0; store < 12; ++store) {
      const std::uint64_t bytes = random.below(300);
      std::memset(lendable.bytes().data() + random.below(kBytes - bytes + 1), 1 + round, bytes);
    }
    std::vector<Range> ranges(random.below(7));
    for (Range& range : ranges) {
      range.bytes = random.below(400);
      range.offset = random.below(kBytes - range.bytes + 1);
      const std::uint64_t end = lines_end(range.offset, range.bytes);
      for (std::uint64_t at = line_start(range.offset); at < end; ++at) {
        durable[at] = lendable.bytes()[at];
      }
    }
    ASSERT_TRUE(region.value()->persist(ranges).ok());
  }
}

// Goal: a region is open once at a time, has one size, and leaves the caller's memory to him.
// Method: open twice, then with other sizes and as an ordinary region after closing.
// Mutation: an open that takes the memory's size without looking at the file's fails.
TEST_F(PmemFileRegionOver, OpenOnceWithItsSize) {
  Lendable first(kPageBytes);
  Lendable second(kPageBytes);
  auto region = open_file_region_over(path_, first.bytes());
  ASSERT_TRUE(region.ok());
  EXPECT_TRUE(open_file_region_over(path_, second.bytes()).status().IsBusy());
  first.bytes()[70] = std::byte{7};
  ASSERT_TRUE(region.value()->persist(70, 1).ok());
  region.take().reset();
  EXPECT_EQ(first.bytes()[70], std::byte{7});
  Lendable larger(kPageBytes + kLineBytes);
  EXPECT_TRUE(open_file_region_over(path_, larger.bytes()).status().IsInvalidArgument());
  EXPECT_TRUE(open_file_region_over(path_, second.bytes()).ok());
  EXPECT_EQ(second.bytes()[70], std::byte{7});
  auto owned = open_file_region(path_, 0);
  ASSERT_TRUE(owned.ok());
  EXPECT_EQ(owned.value()->data()[70], std::byte{7});
}

// Goal: memory that a region cannot work in is a programmer's error.
// Method: memory that is not aligned, not whole lines, of another size than asked for, empty.
// Mutation: a region that rounds the size up reads what is not the caller's.
TEST_F(PmemFileRegionOver, UnfitMemoryDies) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Lendable lendable(2 * kPageBytes);
  const auto open = [&](std::span<std::byte> memory) {
    (void)open_file_region_over(path_, memory);
  };
  EXPECT_DEATH(open(lendable.bytes().subspan(kLineBytes, kPageBytes)), "assertion failed");
  EXPECT_DEATH(open(lendable.bytes().first(kPageBytes - 1)), "assertion failed");
  EXPECT_DEATH(open({}), "assertion failed");
  EXPECT_DEATH(
      (void)open_file_region_on(real_disk(), path_, kPageBytes, {kPageBytes, lendable.bytes()}),
      "assertion failed");
}

constexpr int kCallers = 2;
constexpr int kRounds = 200;

void store_word(std::byte* at, std::uint64_t value) {
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(at), value, __ATOMIC_RELAXED);
}

std::uint64_t load_word(const std::byte* at) {
  std::uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Stores words whose halves are `value`, which it counts up, all over `memory` but the first words
/// of its lines, until `done`.
void store_all_over(std::span<std::byte> memory, std::atomic<std::uint64_t>& value,
                    const std::atomic<bool>& done) {
  for (; !done; ++value) {
    for (std::uint64_t at = 0; at < memory.size(); at += kWordBytes) {
      if (at % kLineBytes != 0) store_word(memory.data() + at, value << 32 | value);
    }
  }
}

// Goal: others may store anywhere at any time: each persist finds its own stores durable, and no
// word is torn, be it persisted or written by a checkpoint.
// Method: one thread stores all over the memory; two store into the first word of each line of a
// page of their own and persist these. The log is so small that every other persist writes pages.
// Then the region is opened over other memory.
// Mutation: a checkpoint that writes straight from the memory is a race for tsan; a persist that
// does not mark its pages loses words.
TEST_F(PmemFileRegionOver, ConcurrentStores) {
  constexpr std::uint64_t kBytes = kCallers * kPageBytes + 5 * kLineBytes;
  Lendable lendable(kBytes);
  auto region = open_with_tiny_log(lendable);
  ASSERT_TRUE(region.ok());
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> value{1};
  std::atomic<int> failures{0};
  const auto persist_page = [&](std::uint64_t page) {
    for (int round = 1; round <= kRounds; ++round) {
      for (std::uint64_t at = page; at < page + kPageBytes; at += kLineBytes) {
        store_word(lendable.bytes().data() + at, static_cast<std::uint64_t>(round));
      }
      const std::array<Range, 2> ranges{{{page + 2000, 2096}, {page, 2000}}};
      if (!region.value()->persist(ranges).ok()) ++failures;
    }
  };
  std::thread storer(store_all_over, lendable.bytes(), std::ref(value), std::cref(done));
  while (value == 1) std::this_thread::yield();  // it is at work
  std::vector<std::thread> callers;
  for (std::uint64_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back(persist_page, caller * kPageBytes);
  }
  for (std::thread& caller : callers) caller.join();
  done = true;
  storer.join();
  EXPECT_EQ(failures, 0);
  region.take().reset();
  Lendable found(kBytes);
  ASSERT_TRUE(open_with_tiny_log(found).ok());
  for (std::uint64_t at = 0; at < kBytes; at += kWordBytes) {
    const std::uint64_t word = load_word(found.bytes().data() + at);
    if (at % kLineBytes != 0) {
      ASSERT_EQ(word >> 32, word & 0xffffffff) << "torn at " << at;
    } else if (at < kCallers * kPageBytes) {
      ASSERT_EQ(word, std::uint64_t{kRounds}) << "lost at " << at;
    }
  }
}

}  // namespace
}  // namespace breccia::pmem
