#include "console/text.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace breccia::console {
namespace {

// Goal: both encodings give every string of bytes back.
// Method: random bytes that are rich in the escaped ones.
// Mutation: escaping a tab as a backslash and a tab fails.
TEST(Text, EncodingsGiveBytesBack) {
  base::Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::uint64_t i = random.below(20); i > 0; --i) {
      bytes += random.one_in(2) ? "\t\n\\tn"[random.below(5)] : static_cast<char>(random.next());
    }
    std::string back;
    ASSERT_TRUE(tsv_unescape(tsv_escape(bytes), &back));
    ASSERT_EQ(back, bytes);
    ASSERT_EQ(tsv_escape(bytes).find_first_of("\t\n"), std::string::npos);
    ASSERT_EQ(from_hex(to_hex(bytes)), bytes);
  }
}

// Goal: what is not an encoding is refused.
// Method: one example per rule.
// Mutation: leaving out a check accepts its example.
TEST(Text, RefusesWhatIsNotAnEncoding) {
  std::string bytes;
  EXPECT_FALSE(tsv_unescape("a\\", &bytes));
  EXPECT_FALSE(tsv_unescape("a\\x", &bytes));
  EXPECT_FALSE(from_hex("00"));
  EXPECT_FALSE(from_hex("0x0"));
  EXPECT_FALSE(from_hex("0x0g"));
  EXPECT_EQ(from_hex("0xAbcD"), "\xab\xcd");
  EXPECT_TRUE(is_utf8("caf\xc3\xa9"));
  EXPECT_FALSE(is_utf8("caf\xe9"));
}

}  // namespace
}  // namespace breccia::console
