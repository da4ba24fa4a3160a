#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "disagg/block.h"
#include "disagg/bucket.h"
#include "disagg/index/hash_table.h"
#include "disagg/location.h"
#include "disagg/memory/pool.h"
#include "support/seeds.h"

/// What lies in the memory of servers, and who keeps it in order.

namespace breccia::disagg {

// Goal: each size has the smallest class that holds it, and classes waste a quarter at most.
TEST(DisaggLocation, ClassesHoldAllSizes) {
  for (std::uint32_t i = 1; i < kSizeClasses; ++i) EXPECT_GT(lines_of(i), lines_of(i - 1));
  const std::uint64_t most = block_bytes(kKeyBytesMax, kValueBytesMax);
  for (std::uint64_t bytes = 1; bytes <= most; bytes += 1 + bytes / 50) {
    const std::uint32_t size_class = class_of(bytes);
    ASSERT_LT(size_class, kSizeClasses);
    ASSERT_GE(lines_of(size_class) * kLineBytes, bytes);
    if (size_class > 0) {
      ASSERT_LT(lines_of(size_class - 1) * kLineBytes, bytes);
    }
    if (bytes > 512) {
      ASSERT_LE(lines_of(size_class) * kLineBytes, bytes * 5 / 4 + kLineBytes);
    }
  }
  EXPECT_LT(class_of(most), kSizeClasses);
}

// Goal: a slot has all of a location.
TEST(DisaggLocation, SlotsHaveAll) {
  for (const Location& one :
       {Location{255, 52, kLinesOfNode - 1}, Location{0, 0, 1}, Location{7, 33, 0x2345678901}}) {
    const Slot slot = slot_of(0xabc, one);
    EXPECT_EQ(location_in(slot), one);
    EXPECT_EQ(fingerprint_in(slot), 0xabcU);
  }
}

// Goal: no mixture of a block's bytes with others is taken for it, of all sizes of keys and values.
// Method: each byte of small blocks changed; what is cut off.
TEST(DisaggBlock, IsWholeOrNone) {
  for (const std::size_t key_bytes : {1, 8, 300, 65'536}) {
    for (const std::size_t value_bytes : {0, 1, 100, 1 << 20}) {
      const std::string key(key_bytes, 'k'), value(value_bytes, 'v');
      std::vector<std::byte> block = make_block(77, key, value);
      ASSERT_EQ(block.size(), block_bytes(key_bytes, value_bytes));
      block.resize(lines_of(class_of(block.size())) * kLineBytes, std::byte{9});
      const auto view = whole_block(block);
      ASSERT_TRUE(view.has_value());
      EXPECT_TRUE(view->key == key && view->value == value && view->generation == 77);
      EXPECT_FALSE(view->is_replaced);
    }
  }
  const std::vector<std::byte> block = make_block(1, "key", "value");
  for (std::size_t i = 0; i < block.size(); ++i) {
    std::vector<std::byte> other = block;
    other[i] ^= std::byte{1};
    const bool is_state = i >= BlockHeader::kStateOffset && i < sizeof(BlockHeader);
    EXPECT_EQ(whole_block(other).has_value(), is_state) << i;
    EXPECT_FALSE(whole_block(std::span(block).first(i)).has_value()) << i;
  }
}

// Goal: a block that was replaced is never live, also where a reader has its state from the block's
//   next use, or half of a mark.
// Mutation: a state that is the same in all uses.
TEST(DisaggBlock, IsLiveInItsOwnUse) {
  const auto bytes_of = [](std::uint32_t generation, const char* value) {
    return make_block(generation, "the same key", value);
  };
  const std::vector<std::byte> before = bytes_of(7, "before"), behind = bytes_of(8, "behind");
  constexpr std::size_t kBegin = BlockHeader::kStateOffset, kEnd = BlockHeader::kSequenceOffset;
  ASSERT_FALSE(whole_block(before)->is_replaced);
  std::vector<std::byte> marked = before;
  std::fill(marked.begin() + kBegin, marked.begin() + kEnd, std::byte{0});
  for (std::size_t begin = kBegin; begin < kEnd; ++begin) {
    for (std::size_t end = begin + 1; end <= kEnd; ++end) {
      for (const auto* over : {&before, &behind}) {
        std::vector<std::byte> mixed = marked;
        std::copy(over->begin() + begin, over->begin() + end, mixed.begin() + begin);
        const auto view = whole_block(mixed);
        ASSERT_TRUE(view.has_value());
        const bool is_before_the_mark = over == &before && begin == kBegin && end == kEnd;
        EXPECT_EQ(view->is_replaced, !is_before_the_mark) << begin << " " << end;
      }
    }
  }
}

// Goal: the table has what a map has, and its buckets say so to who reads them: whole, each entry
//   in the chain of its key; no bucket gets lost.
// Method: random changes of few buckets, so that it is full at times.
// Mutation: a bucket that stays in its chain when it is empty; one that is freed twice; an entry
//   behind one that went.
TEST(DisaggHashTable, IsAMap) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const TableShape shape{.bucket_bits = 2, .buckets = 10};
    std::vector<Bucket> buckets(shape.buckets);
    HashTable table(buckets, shape);
    std::map<std::uint64_t, Location> model;
    std::vector<KeyId> ids;
    for (std::uint64_t i = 0; i < 90; ++i) ids.push_back({random.next(), random.next()});
    // Some have the same fingerprint and place.
    for (std::uint64_t i = 1; i < 10; ++i) ids[i].hash = ids[0].hash;
    std::optional<std::uint64_t> torn;
    for (int turn = 0; turn < 400; ++turn) {
      const std::uint64_t i = random.below(ids.size());
      const auto known = model.find(i);
      const std::optional<Location> before =
          known == model.end() ? std::nullopt : std::optional(known->second);
      table.prefetch(ids[i]);
      table.prefetch_place(ids[i]);
      ASSERT_EQ(table.find(ids[i]), before);
      // A chain is changed while it is torn, and whole behind that.
      if (torn.has_value()) table.mend(ids[*std::exchange(torn, std::nullopt)]);
      if (random.one_in(3)) {
        torn = i;
        table.tear(ids[i]);
        const std::uint32_t first = shape.first_bucket(ids[i].hash);
        ASSERT_FALSE(whole_bucket(std::as_bytes(std::span<Bucket, 1>(&buckets[first], 1))));
      }
      if (random.one_in(3)) {
        ASSERT_EQ(table.erase(ids[i]), before);
        model.erase(i);
        continue;
      }
      const Location location{.node = 1, .size_class = 2, .line = 1 + random.below(1000)};
      auto put = table.put(ids[i], location);
      if (!put.ok()) {
        ASSERT_TRUE(put.status().IsMemoryLimit() && !before.has_value());
        ASSERT_EQ(table.free_buckets(), 0U);
        continue;
      }
      ASSERT_EQ(put.value(), before);
      model[i] = location;
    }
    if (torn.has_value()) table.mend(ids[*torn]);
    ASSERT_EQ(table.size(), model.size());
    std::set<std::uint32_t> in_chains;
    std::uint64_t entries = 0;
    for (std::uint32_t first = 0; first < 4; ++first) {
      std::uint32_t at = first;
      do {
        ASSERT_TRUE(in_chains.insert(at).second);
        const auto bucket = whole_bucket(std::span<const std::byte, kLineBytes>(
            reinterpret_cast<const std::byte*>(&buckets[at]), kLineBytes));
        ASSERT_TRUE(bucket.has_value());
        for (const Slot slot : bucket->slot) entries += slot == 0 ? 0 : 1;
        at = bucket->next;
      } while (at != 0);
    }
    EXPECT_EQ(entries, model.size());
    EXPECT_EQ(in_chains.size() + table.free_buckets(), shape.buckets);
  }
}

// Goal: no block is given twice, or lies over another; what was given back is given again, to other
//   classes, too; what is no block in use is refused.
TEST(DisaggPool, GivesEachBlockOnce) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Pool pool(3 * Pool::kChunkLines + 100);
    std::map<std::uint64_t, std::uint32_t> used;  // lines, classes
    for (int turn = 0; turn < 300; ++turn) {
      const auto size_class = static_cast<std::uint32_t>(
          random.one_in(2) ? 30 + random.below(kSizeClasses - 30) : random.below(kSizeClasses));
      if (random.one_in(2)) {
        for (const std::uint64_t line : pool.take(size_class, random.below(20))) {
          ASSERT_GT(line, 0U);
          const auto behind = used.lower_bound(line);
          if (behind != used.end()) {
            ASSERT_LE(line + lines_of(size_class), behind->first);
          }
          if (behind != used.begin()) {
            const auto before = std::prev(behind);
            ASSERT_LE(before->first + lines_of(before->second), line);
          }
          ASSERT_LE(line + lines_of(size_class), 3 * Pool::kChunkLines);
          used.emplace(line, size_class);
        }
      } else if (!used.empty()) {
        const auto one =
            std::next(used.begin(), static_cast<std::ptrdiff_t>(random.below(used.size())));
        ASSERT_TRUE(lines_of(one->second) == 1 || !pool.give_back(one->second, one->first + 1));
        ASSERT_FALSE(pool.give_back((one->second + 1) % kSizeClasses, one->first));
        ASSERT_TRUE(pool.give_back(one->second, one->first));
        ASSERT_FALSE(pool.give_back(one->second, one->first));
        used.erase(one);
      }
      ASSERT_EQ(pool.used_blocks(), used.size());
    }
    for (const auto& [line, size_class] : used) ASSERT_TRUE(pool.give_back(size_class, line));
    EXPECT_EQ(pool.free_chunks(), 3U);
    for (const std::uint64_t line : {0ULL, 1ULL, 1ULL << 40}) EXPECT_FALSE(pool.give_back(0, line));
  }
}

}  // namespace breccia::disagg
