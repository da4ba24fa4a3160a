#include "batch/range_columns.h"

#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "batch/chunks.h"
#include "support/seeds.h"

namespace breccia::batch {

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string random_string(std::uint64_t bytes, base::Random* random) {
  std::string string(bytes, '\0');
  for (char& c : string) c = static_cast<char>(random->next());
  return string;
}

/// A batch whose ranges have results of both kinds, and what these are.
class Found {
 public:
  /// `width`: of all keys and values; 0: they differ in length.
  Found(std::uint64_t ranges, std::uint64_t entries_max, std::size_t width, base::Random* random)
      : width_(width), random_(random) {
    for (std::uint64_t i = 0; i < ranges; ++i) {
      families_.push_back(random->one_in(2) ? 7 : 0);
      EXPECT_TRUE(batch.Range(families_.back(), "a", "z", 9).ok());
    }
    EXPECT_TRUE(batch.requests().prepare_results(1, /*with_bounds=*/false));
    std::vector<std::uint64_t> places(8);
    for (std::uint64_t i = 0; i < ranges; ++i) {
      batch::Ranges& part = *part_of(families_[i]);
      entries.emplace_back();
      const bool fails = random->one_in(9);
      const auto count = static_cast<std::uint32_t>(random->below(entries_max + 1));
      const bool as_pairs = (width == 0 || width == 8) && random->one_in(3);
      part.results()[places[families_[i]]++] =
          as_pairs ? pairs(&part, count) : records(count, fails);
    }
  }

  Batch batch;
  std::vector<Entries> entries;  // by range

 private:
  [[nodiscard]] batch::Ranges* part_of(FamilyId family) {
    for (const auto& part : batch.requests().ranges()) {
      if (part->family() == family) return part.get();
    }
    return nullptr;
  }
  RangeResult pairs(batch::Ranges* part, std::uint32_t count) {
    std::uint64_t* const words = part->make_pairs(count + 1);
    for (std::uint32_t j = 0; j < count; ++j) {
      const std::string key = random_string(8, random_);
      const std::string value = random_string(8, random_);
      std::memcpy(words + 2 * j, key.data(), 8);
      std::memcpy(words + 2 * j + 1, value.data(), 8);
      entries.back().emplace_back(key, value);
    }
    return {words, nullptr, count, Status::Code::kOk};
  }
  RangeResult records(std::uint32_t count, bool fails) {
    lists_.push_back(std::make_unique<const std::byte*[]>(count + 1));
    for (std::uint32_t j = 0; j < count; ++j) {
      const std::string key = random_string(width_ > 0 ? width_ : random_->below(40), random_);
      const std::string value = random_string(width_ > 0 ? width_ : random_->below(400), random_);
      const auto header = record::RecordHeader::make(record::Op::kPut, key.size(), value.size());
      auto& memory =
          records_.emplace_back(std::make_unique<std::byte[]>(header.record_bytes() + 8));
      std::memcpy(memory.get(), &header, sizeof header);
      std::memcpy(memory.get() + sizeof header, key.data(), key.size());
      std::memcpy(memory.get() + sizeof header + key.size(), value.data(), value.size());
      lists_.back()[j] = memory.get();
      entries.back().emplace_back(key, value);
    }
    const Status::Code code = fails ? Status::Code::kIOError : Status::Code::kOk;
    return {nullptr, lists_.back().get(), count, code};
  }

  const std::size_t width_;
  base::Random* random_;
  std::vector<FamilyId> families_;
  std::vector<std::unique_ptr<std::byte[]>> records_;
  std::vector<std::unique_ptr<const std::byte*[]>> lists_;
};

/// Strings [begins[i], begins[i + 1]) of `bytes`.
template <class Offset>
std::vector<std::string> strings_of(const std::string& bytes, const std::vector<Offset>& begins) {
  std::vector<std::string> strings;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    strings.push_back(bytes.substr(static_cast<std::size_t>(begins[i]),
                                   static_cast<std::size_t>(begins[i + 1] - begins[i])));
  }
  return strings;
}

/// Ranges [first, first + some) as columns of strings with offsets have what they found.
template <class Offset>
void expect_as_lists(const Found& found, std::size_t first, std::size_t some) {
  std::vector<Offset> lists(some + 1, -1);
  std::vector<std::uint8_t> is_there(some, 9);
  ASSERT_TRUE(found.batch.RangeOffsets(first, some, lists.data(), is_there.data()).ok());
  const auto count = static_cast<std::size_t>(lists[some]);
  std::vector<Offset> keys(count + 1, -1);
  std::vector<Offset> values(count + 1, -1);
  ASSERT_TRUE(found.batch.EntryOffsets(first, some, lists.data(), keys.data(), values.data()).ok());
  std::string key_bytes(static_cast<std::size_t>(keys[count]), '?');
  std::string value_bytes(static_cast<std::size_t>(values[count]), '?');
  const Status status = found.batch.CopyEntries(
      first, some, lists.data(), BytesRoom::Variable(key_bytes.data(), keys.data()),
      BytesRoom::Variable(value_bytes.data(), values.data()));
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::vector<std::string> key_strings = strings_of(key_bytes, keys);
  const std::vector<std::string> value_strings = strings_of(value_bytes, values);
  std::size_t entry = 0;
  for (std::size_t i = 0; i < some; ++i) {
    ASSERT_EQ(static_cast<std::size_t>(lists[i]), entry);
    ASSERT_EQ(is_there[i], found.batch.range_code(first + i) == Status::Code::kOk ? 1 : 0);
    for (const auto& [key, value] : found.entries[first + i]) {
      ASSERT_EQ(key_strings[entry], key);
      ASSERT_EQ(value_strings[entry], value);
      ++entry;
    }
  }
  ASSERT_EQ(entry, count);
}

}  // namespace

// Goal: what ranges found becomes lists of strings, of any part of the ranges, in offsets of both
//   kinds, from records and from pairs.
// Method: results made by hand, of two families, empty ones and failed ones among them, in numbers
//   around those of a block and of what threads share.
// Mutation: an entry counted from its list's begin, a list that is empty at a block's end, or the
//   second family's places fails.
TEST(RangeColumns, AreListsOfStrings) {
  for (const std::uint64_t seed : testing::seeds_to_run(60)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const bool many = seed % 20 == 1;
    const std::uint64_t ranges = many ? 40 : random.below(40);
    Found found(ranges, many ? 3000 : (random.one_in(2) ? 3 : 80), 0, &random);
    const std::size_t first = many ? 0 : random.below(ranges + 1);
    const std::size_t some = many ? ranges : random.below(ranges - first + 1);
    expect_as_lists<std::int32_t>(found, first, some);
    expect_as_lists<std::int64_t>(found, first, some);
    if (HasFailure()) return;
  }
}

// Goal: entries of one length go into rows, forwards and backwards, and what is not wanted stays
//   out.
// Method: keys into rows at a distance, values into rows that go backwards; then values alone.
// Mutation: a stride that is not kept, or keys written where none are wanted, fails.
TEST(RangeColumns, FillRows) {
  for (const std::uint64_t seed : testing::seeds_to_run(30)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    constexpr std::size_t kWidth = 8;
    constexpr std::ptrdiff_t kStride = 11;
    const Found found(1 + random.below(20), 60, kWidth, &random);
    const std::size_t ranges = found.entries.size();
    std::vector<std::int64_t> lists(ranges + 1);
    std::vector<std::uint8_t> is_there(ranges);
    ASSERT_TRUE(found.batch.RangeOffsets(0, ranges, lists.data(), is_there.data()).ok());
    const auto count = static_cast<std::size_t>(lists[ranges]);
    std::string keys(count * kStride + kWidth, '.');
    std::string values(count * kWidth + kWidth, '.');
    const auto forwards = BytesRoom::Fixed(keys.data(), kWidth, kStride);
    const auto backwards =
        BytesRoom::Fixed(values.data() + count * kWidth, kWidth, -std::ptrdiff_t{kWidth});
    ASSERT_TRUE(found.batch.CopyEntries(0, ranges, lists.data(), forwards, backwards).ok());
    std::string again(count * kWidth, '.');
    ASSERT_TRUE(found.batch
                    .CopyEntries(0, ranges, lists.data(), BytesRoom(),
                                 BytesRoom::Fixed(again.data(), kWidth))
                    .ok());
    std::size_t at = 0;
    for (const Entries& range : found.entries) {
      for (const auto& [key, value] : range) {
        ASSERT_EQ(keys.substr(at * kStride, kStride), key + "...");
        ASSERT_EQ(values.substr((count - at) * kWidth, kWidth), value);
        ASSERT_EQ(again.substr(at * kWidth, kWidth), value);
        ++at;
      }
    }
    ASSERT_EQ(at, count);
  }
}

// Goal: an entry of another length is told, nothing is written for it, and the others are copied;
//   rooms that overlap are refused.
// Method: three records by hand, the second with a longer value.
// Mutation: a value that is cut, or a stride that is not looked at, fails.
TEST(RangeColumns, OtherLengthsAreTold) {
  Batch batch;
  ASSERT_TRUE(batch.Range("a", "z", 9).ok());
  ASSERT_TRUE(batch.requests().prepare_results(1, /*with_bounds=*/false));
  std::byte memory[3][32] = {};
  const std::byte* list[3];
  const char* const values[] = {"one", "four", "two"};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto header = record::RecordHeader::make(record::Op::kPut, 1, std::strlen(values[i]));
    std::memcpy(memory[i], &header, sizeof header);
    std::memcpy(memory[i] + sizeof header, "k", 1);
    std::memcpy(memory[i] + sizeof header + 1, values[i], std::strlen(values[i]));
    list[i] = memory[i];
  }
  batch.requests().ranges()[0]->results()[0] = {nullptr, list, 3, Status::Code::kOk};
  const std::int32_t lists[] = {0, 3};
  std::string keys = "...";
  std::string rows = ".........";
  const auto key_room = BytesRoom::Fixed(keys.data(), 1);
  EXPECT_TRUE(
      batch.CopyEntries(0, 1, lists, key_room, BytesRoom::Fixed(rows.data(), 3, -2)).code() ==
      Status::Code::kInvalidArgument);
  EXPECT_EQ(keys + rows, "............");
  EXPECT_EQ(batch.CopyEntries(0, 1, lists, key_room, BytesRoom::Fixed(rows.data(), 3)).code(),
            Status::Code::kInvalidArgument);
  EXPECT_EQ(keys, "kkk");
  EXPECT_EQ(rows, "one...two");
}

// Goal: more entries, or more bytes, than offsets of 32 bits can tell are refused there, and
//   nowhere else.
// Method: results that say to have 2^31 - 1 entries, at which nobody looks; records that say to
//   have values of together as many bytes.
// Mutation: a sum of 32 bits fails.
TEST(RangeColumns, OffsetsOf32BitsHaveAnEnd) {
  Batch batch;
  ASSERT_TRUE(batch.Range("a", "z", 9).ok());
  ASSERT_TRUE(batch.Range("a", "z", 9).ok());
  ASSERT_TRUE(batch.requests().prepare_results(1, /*with_bounds=*/false));
  RangeResult* const results = batch.requests().ranges()[0]->results();
  const std::uint32_t most = std::numeric_limits<std::int32_t>::max();
  std::int32_t lists32[3];
  std::int64_t lists64[3];
  std::uint8_t found[2];
  for (const std::uint32_t more : {0, 1}) {
    results[0] = {nullptr, nullptr, most, Status::Code::kOk};
    results[1] = {nullptr, nullptr, more, Status::Code::kOk};
    EXPECT_EQ(batch.RangeOffsets(0, 2, lists32, found).ok(), more == 0);
    EXPECT_TRUE(batch.RangeOffsets(0, 2, lists64, found).ok());
    EXPECT_EQ(lists64[2], static_cast<std::int64_t>(most) + more);
  }
  const auto half = record::RecordHeader::make(record::Op::kPut, 0, 1 << 30);
  const auto rest = record::RecordHeader::make(record::Op::kPut, 0, (1 << 30) - 1);
  for (const auto& second : {rest, half}) {
    const std::byte* const list[] = {reinterpret_cast<const std::byte*>(&half),
                                     reinterpret_cast<const std::byte*>(&second)};
    results[0] = {nullptr, list, 2, Status::Code::kOk};
    results[1] = {nullptr, nullptr, 0, Status::Code::kOk};
    ASSERT_TRUE(batch.RangeOffsets(0, 2, lists32, found).ok());
    ASSERT_TRUE(batch.RangeOffsets(0, 2, lists64, found).ok());
    std::int32_t keys32[3];
    std::int32_t values32[3];
    std::int64_t values64[3];
    EXPECT_EQ(batch.EntryOffsets(0, 2, lists32, keys32, values32).ok(),
              second.value_bytes == rest.value_bytes);
    EXPECT_TRUE(batch.EntryOffsets(0, 2, lists64, nullptr, values64).ok());
    EXPECT_EQ(values64[2], (std::int64_t{1} << 30) + static_cast<std::int64_t>(second.value_bytes));
  }
}

}  // namespace breccia::batch
