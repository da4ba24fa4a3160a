#include "record/entry_columns.h"

#include <gtest/gtest.h>

#include "support/records_in_memory.h"

namespace breccia::record {

// Goal: entries of the log become columns, with values while all have 8 bytes.
// Method: a put, a deletion and an operand with such values; then a put of another length.
// Mutation: counting a deletion's empty value as another length leaves the column out.
TEST(EntryColumns, ValuesOfEightBytes) {
  memtable::RecordsInMemory records;
  record::EntryColumns columns(exec::plain_host_memory());
  const auto append = [&](record::Op op, const std::string& key, const std::string& value) {
    const std::uint64_t position = records.add(op, key, value);
    return columns.append(records.record(position), position | static_cast<std::uint64_t>(op));
  };
  ASSERT_TRUE(append(record::Op::kPut, "key", "12345678"));
  ASSERT_TRUE(append(record::Op::kDelete, "other key", ""));
  EXPECT_FALSE(columns.has_merges());
  ASSERT_TRUE(append(record::Op::kMerge, "key", "abcdefgh"));
  EXPECT_TRUE(columns.has_merges());
  const record::EntriesRef entries = columns.ref(/*sorted=*/false);
  ASSERT_EQ(entries.keys.count, 3u);
  EXPECT_EQ(columns.payloads().data(), entries.relative);
  EXPECT_EQ(record::op_of(entries.relative[1]), record::Op::kDelete);
  ASSERT_NE(entries.value, nullptr);
  EXPECT_EQ(std::memcmp(&entries.value[0], "12345678", 8), 0);
  EXPECT_EQ(std::memcmp(&entries.value[2], "abcdefgh", 8), 0);
  ASSERT_TRUE(append(record::Op::kPut, "key", "longer than that"));
  EXPECT_EQ(columns.ref(/*sorted=*/true).value, nullptr);
  EXPECT_TRUE(columns.ref(/*sorted=*/true).sorted);
}

}  // namespace breccia::record
