#include "compaction/strings.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::compaction {
namespace {

std::string random_plain(base::Random& random) {
  std::string text;
  for (std::uint64_t left = random.below(12); left > 0; --left) {
    text.push_back("abcXYZ019_.,-=/ "[random.below(16)]);
  }
  return text;
}

/// Fields of any depth, and what they should be read as.
void fill(base::Random& random, int depth, FieldWriter* writer, Fields* expected) {
  for (std::uint64_t field = random.below(6); field > 0; --field) {
    const std::string name = "f" + std::to_string(field);
    FieldWriter inner;
    Fields ignored;
    switch (depth == 0 ? 0 : random.below(3)) {
      case 0: {
        const std::string value = random_plain(random);
        writer->add_plain(name, value);
        (*expected)[name] = value;
        break;
      }
      case 1:
        fill(random, depth - 1, &inner, &ignored);
        writer->add_nested(name, inner);
        (*expected)[name] = "{" + inner.fields() + "}";
        break;
      default:
        fill(random, depth - 1, &inner, &ignored);
        writer->add_nested_list(name, {inner, inner});
        (*expected)[name] = "{{" + inner.fields() + "}:{" + inner.fields() + "}}";
        break;
    }
  }
}

// Goal: what is written is what is read, whatever is nested in it.
// Method: random fields; nested ones are read again from their values.
// Mutation: a value that ends at the first semicolon, nested or not.
TEST(CompactionStrings, ReadsWhatItWrites) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    FieldWriter writer;
    Fields expected;
    fill(random, 3, &writer, &expected);
    const std::string framed = writer.framed();
    const auto body = unframed(framed);
    ASSERT_TRUE(body.ok());
    const auto read = read_fields(body.value());
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read.value(), expected);
    for (const auto& [name, value] : read.value()) {
      if (!value.starts_with('{')) continue;
      if (value.starts_with("{{")) {
        const auto items = read_list(std::string_view(value).substr(1, value.size() - 2));
        ASSERT_TRUE(items.ok()) << value;
        ASSERT_EQ(items.value().size(), 2U);
        EXPECT_EQ(items.value()[0], items.value()[1]);
        EXPECT_TRUE(read_nested(items.value()[0]).ok());
      } else {
        EXPECT_TRUE(read_nested(value).ok()) << value;
      }
    }
  }
}

// Goal: nothing that RocksDB would not write is taken for something.
// Method: one offence at a time; and each cut of a good text, but behind its fields.
// Mutation: braces that are only counted, names that may be anything, the last of two fields.
TEST(CompactionStrings, RefusesOtherTexts) {
  for (const char* const text :
       {"a", "a=1", "=1;", "a b=1;", "a=1;;", "a={;", "a=};", "a={b=1;}", "a={b=1;}c;",
        "a=x{b=1;};", "a=1;a=2;", "a={b=1;}:{;", "{a=1;}", "a={b=1;}};", ";", "a=1;b"}) {
    EXPECT_TRUE(read_fields(text).status().IsCorruption()) << text;
  }
  for (const char* const text :
       {"", "a=1;", "{a=1;", "a=1;}", "{a=1;}{b=1;}", "{a=1}", "{a=1;};"}) {
    EXPECT_TRUE(read_nested(text).status().IsCorruption()) << text;
  }
  for (const char* const text : {":", "a:", ":a", "a::b", "a;b", "{a", "{a}b", "{a}:", "a}"}) {
    EXPECT_TRUE(read_list(text).status().IsCorruption()) << text;
  }
  const std::string good = "first=1;second={a=1;b={c=2;};};third=x:y:z;";
  EXPECT_TRUE(read_fields(good).ok());
  for (std::size_t bytes = 1; bytes < good.size(); ++bytes) {
    const bool is_between = bytes == good.find("second") || bytes == good.find("third");
    EXPECT_EQ(read_fields(good.substr(0, bytes)).ok(), is_between) << bytes;
  }
  EXPECT_TRUE(unframed("\x01").status().IsCorruption());
  EXPECT_TRUE(unframed(std::string("\x02\x00\x00\x00", 4)).status().IsNotSupported());
}

// Goal: lists of items, plain and nested ones.
// Method: none, one and several.
// Mutation: a colon within braces that parts items.
TEST(CompactionStrings, Lists) {
  const auto list = [](const char* text) { return read_list(text).take(); };
  EXPECT_EQ(list(""), std::vector<std::string>{});
  EXPECT_EQ(list("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(list("1:22:3"), (std::vector<std::string>{"1", "22", "3"}));
  EXPECT_EQ(list("{a=1:2;}:{b=3;}"), (std::vector<std::string>{"{a=1:2;}", "{b=3;}"}));
  FieldWriter none;
  none.add_nested_list("files", {});
  EXPECT_EQ(none.fields(), "files=;");
  FieldWriter item;
  item.add_plain("id", "1:2");
  FieldWriter one;
  one.add_nested_list("files", {item});
  EXPECT_EQ(one.fields(), "files={{id=1:2;}};");
}

// Goal: words are whole: no signs before or behind them, nothing beyond their type.
// Method: the limits, and what is next to them.
// Mutation: a number that is read as far as it goes.
TEST(CompactionStrings, Words) {
  std::uint64_t number = 7;
  EXPECT_TRUE(read_word("18446744073709551615", &number));
  EXPECT_EQ(number, std::numeric_limits<std::uint64_t>::max());
  for (const char* const text : {"", "-1", "+1", " 1", "1 ", "1x", "18446744073709551616"}) {
    EXPECT_FALSE(read_word(text, &number)) << text;
  }
  std::int64_t with_sign = 0;
  EXPECT_TRUE(read_word("-14", &with_sign));
  EXPECT_EQ(with_sign, -14);
  bool truth = false;
  EXPECT_TRUE(read_word("true", &truth));
  EXPECT_TRUE(truth);
  EXPECT_FALSE(read_word("1", &truth));
  const std::string bytes("\x00\xFFk;{", 5);
  std::string read;
  EXPECT_EQ(to_hex(bytes), "00FF6B3B7B");
  EXPECT_TRUE(read_hex(to_hex(bytes), &read));
  EXPECT_EQ(read, bytes);
  EXPECT_FALSE(read_hex("0", &read));
  EXPECT_FALSE(read_hex("0g", &read));
  EXPECT_FALSE(read_hex("ff", &read));
}

}  // namespace
}  // namespace breccia::compaction
