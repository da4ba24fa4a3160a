#include "tree/log_note.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/folder.h"

namespace breccia::tree {

namespace {

bool is_same(const LogNote& a, const LogNote& b) {
  const auto same_part = [](const LogPart& one, const LogPart& other) {
    return one.family == other.family && one.from == other.from && one.has_all == other.has_all;
  };
  return a.store_id == b.store_id && a.applied == b.applied && a.manifest == b.manifest &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part);
}

}  // namespace

// Goal: a note comes back as it was written, and none that is not whole.
// Method: notes of none to three families; cut at each byte, and each byte changed; removed twice.
// Mutation: without the checksum a note with another digit is believed.
TEST(LogNote, ComesBackWholeOrNotAtAll) {
  const testing::Folder folder(testing::Place::kMemory);
  const std::string path = folder.path();
  rocksdb::Env* const env = rocksdb::Env::Default();
  EXPECT_EQ(read_log_note(env, path).store_id, 0U);
  LogNote note{0xfedcba9876543211, 1ULL << 40, "MANIFEST-000005", {}};
  for (std::uint32_t family = 0; family < 3; ++family) {
    ASSERT_TRUE(write_log_note(env, path, note).ok());
    EXPECT_TRUE(is_same(read_log_note(env, path), note));
    note.parts.push_back({family, 7ULL << 33 | family, family % 2 == 0});
  }
  ASSERT_TRUE(write_log_note(env, path, note).ok());
  std::string text;
  const std::string name = path + "/" + kLogNote;
  ASSERT_TRUE(rocksdb::ReadFileToString(env, name, &text).ok());
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    ASSERT_TRUE(rocksdb::WriteStringToFile(env, text.substr(0, i), name).ok());
    EXPECT_EQ(read_log_note(env, path).store_id, 0U) << i;
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    ASSERT_TRUE(rocksdb::WriteStringToFile(env, other, name).ok());
    EXPECT_EQ(read_log_note(env, path).store_id, 0U) << i;
  }
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(remove_log_note(env, path).ok());
  EXPECT_EQ(read_log_note(env, path).store_id, 0U);
}

}  // namespace breccia::tree
