#include "record/record.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace breccia::record {
namespace {

std::string value_of(const std::byte* record) {
  return {record_value(record), record_header(record).value_bytes};
}

}  // namespace

// Goal: a header says what it was made of, and a record without a gap is what it always was.
// Method: all operations, gaps and some lengths; bytes of one record without a gap.
// Mutation: bits of the gap that are taken for the operation, or the other way round.
TEST(Record, HeadersSayAll) {
  for (int op = 0; op < kOpCount; ++op) {
    for (std::uint32_t gap = 0; gap <= kGapWordsMax; ++gap) {
      for (const std::uint64_t key_bytes : {0, 8, 11, 65536}) {
        const auto header = RecordHeader::make(static_cast<Op>(op), key_bytes, 128, gap);
        EXPECT_EQ(header.op(), static_cast<Op>(op));
        EXPECT_EQ(header.key_bytes(), key_bytes);
        EXPECT_EQ(header.gap_words(), gap);
        EXPECT_EQ(header.value_offset(), 8 + key_bytes + 8 * gap);
        EXPECT_EQ(header.record_bytes(), (8 + key_bytes + 8 * gap + 128 + 7) / 8 * 8);
        EXPECT_EQ(header == RecordHeader::make(static_cast<Op>(op), key_bytes, 128), gap == 0);
      }
    }
  }
  const auto header = RecordHeader::make(Op::kDelete, 8, 3);
  EXPECT_EQ(header.key_bytes_and_op, 0x01000008U);
  EXPECT_EQ(header.value_bytes, 3U);
}

// Goal: a value is found behind the gap, which is zero, as is the padding.
// Method: records with gaps and without, of values that end everywhere in a word.
// Mutation: a gap that is left as it was, or a value right behind the key.
TEST(Record, ValuesLieBehindTheGap) {
  const std::string key = "a key..";
  for (const std::uint32_t gap : {0U, 1U, 6U, kGapWordsMax}) {
    for (std::size_t bytes = 0; bytes < 20; ++bytes) {
      const std::string value(bytes, 'v');
      const auto header = RecordHeader::make(Op::kPut, key.size(), bytes, gap);
      std::vector<std::byte> record(header.record_bytes(), std::byte{0xff});
      write_record(record.data(), header, key.data(), key.size(), value.data(), bytes);
      EXPECT_TRUE(has_header(record.data(), header));
      EXPECT_EQ(std::string(record_key(record.data()), key.size()), key);
      EXPECT_EQ(value_of(record.data()), value);
      std::string expected = key + std::string(gap * std::size_t{8}, '\0') + value;
      expected.resize(record.size() - sizeof header);
      EXPECT_EQ(std::string(record_key(record.data()), expected.size()), expected);
    }
  }
}

// Goal: two records have the same value or not, wherever it lies.
// Mutation: comparing records byte by byte, or values of two lengths.
TEST(Record, SameValues) {
  const auto made = [](const std::string& value, std::uint32_t gap) {
    const auto header = RecordHeader::make(Op::kPut, 1, value.size(), gap);
    std::vector<std::byte> record(header.record_bytes());
    write_record(record.data(), header, "k", 1, value.data(), value.size());
    return record;
  };
  EXPECT_TRUE(have_same_value(made("value", 0).data(), made("value", 3).data()));
  EXPECT_TRUE(have_same_value(made("", 0).data(), made("", 1).data()));
  EXPECT_FALSE(have_same_value(made("value", 0).data(), made("valuf", 0).data()));
  EXPECT_FALSE(have_same_value(made("value", 2).data(), made("values", 2).data()));
}

}  // namespace breccia::record
