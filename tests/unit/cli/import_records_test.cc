#include "cli/import_records.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "console/text.h"

namespace breccia::cli {
namespace {

using Outcome = RecordReader::Outcome;

// A source that hands `text` out in pieces of `piece` bytes.
LineReader::Source in_pieces(std::string text, std::size_t piece) {
  return [text = std::move(text), piece, at = std::size_t{0}](char* to, std::size_t size) mutable {
    const std::size_t count = std::min({size, piece, text.size() - at});
    std::memcpy(to, text.data() + at, count);
    at += count;
    return static_cast<std::ptrdiff_t>(count);
  };
}

// What a reader said, one string per record or problem.
std::vector<std::string> all(const RecordFormat& format, const std::string& text,
                             std::size_t piece) {
  const auto reader = make_record_reader(format, in_pieces(text, piece));
  std::vector<std::string> said;
  Record record;
  while (true) {
    const Outcome outcome = reader->next(&record);
    if (outcome == Outcome::kEnd) return said;
    const std::string line = std::to_string(reader->line()) + ":";
    said.push_back(outcome == Outcome::kRecord
                       ? line + std::string(record.key) + "=" + std::string(record.value)
                       : line + "bad");
  }
}

std::vector<std::string> in_all_pieces(const RecordFormat& format, const std::string& text) {
  const auto said = all(format, text, 1);
  for (const std::size_t piece : {2, 3, 7, 1000}) EXPECT_EQ(all(format, text, piece), said);
  return said;
}

using Said = std::vector<std::string>;

// Goal: TSV records come out with their escapes undone, and bad lines are named.
// Method: one line per case, read in pieces of several sizes.
// Mutation: a line reader that forgets bytes at the end of a piece fails.
TEST(ImportRecords, Tsv) {
  const RecordFormat format{.name = RecordFormat::Name::kTsv, .key_field = "", .value_field = ""};
  EXPECT_EQ(in_all_pieces(format, "a\t1\nno tab\nb\\t\\n\\\\\t\n\t2\nc\t\\x\nd\t1\t2\ne\tlast"),
            (Said{"1:a=1", "2:bad", "3:b\t\n\\=", "4:=2", "5:bad", "6:bad", "7:e=last"}));
  EXPECT_EQ(in_all_pieces(format, ""), Said{});
}

// Goal: JSON lines give the fields asked for, or the whole line.
// Method: the three ways to choose the value, with text that is no object beside them.
// Mutation: taking `value` although --key-field was given fails.
TEST(ImportRecords, JsonLines) {
  RecordFormat format{.name = RecordFormat::Name::kJsonLines, .key_field = "", .value_field = ""};
  const std::string text =
      "{\"key\":\"a\",\"value\":\"1\"}\n[1]\n\n{\"key\":7,\"value\":{\"x\":[1]}}\n{\"id\":\"z\"}\n"
      "{\"key\":\"w\",\"id\":\"y\"}\n{";
  EXPECT_EQ(in_all_pieces(format, text), (Said{"1:a=1", "2:bad", "4:7={\"x\":[1]}", "5:bad",
                                               "6:w={\"key\":\"w\",\"id\":\"y\"}", "7:bad"}));
  format.key_field = "key";
  EXPECT_EQ(in_all_pieces(format, text)[0], "1:a={\"key\":\"a\",\"value\":\"1\"}");
  format.key_field = "id";
  format.value_field = "key";
  EXPECT_EQ(in_all_pieces(format, text),
            (Said{"1:bad", "2:bad", "4:bad", "5:bad", "6:y=w", "7:bad"}));
}

// Goal: a stanza is the lines between blank ones; its key is a field, whatever its case.
// Method: continuation lines, several blank lines, a stanza without the key, no last line feed.
// Mutation: losing the last stanza of a file that ends without a blank line fails.
TEST(ImportRecords, Stanzas) {
  RecordFormat format{
      .name = RecordFormat::Name::kStanza, .key_field = "Package", .value_field = ""};
  const std::string text = "\npackage: a \nX: 1\n more\n\n \n\nX: 2\n\nY: 0\nPackage:b\nX: 3";
  EXPECT_EQ(in_all_pieces(format, text),
            (Said{"2:a=package: a \nX: 1\n more\n", "8:bad", "10:b=Y: 0\nPackage:b\nX: 3\n"}));
  format.value_field = "x";
  EXPECT_EQ(in_all_pieces(format, text), (Said{"2:a=1\nmore", "8:bad", "10:b=3"}));
}

// Goal: a line over the limit is skipped as a whole and the next one is read.
// Method: limits around the length of the line.
// Mutation: a buffer one byte too small refuses a line of exactly the limit.
TEST(ImportRecords, LinesOverTheLimit) {
  for (const std::size_t length : {7, 8, 9, 100}) {
    LineReader lines(in_pieces(std::string(length, 'x') + "\nnext\n", 3), /*line_bytes_max=*/8);
    std::string_view line;
    ASSERT_EQ(lines.next(&line),
              length <= 8 ? LineReader::Outcome::kLine : LineReader::Outcome::kTooLong);
    ASSERT_EQ(lines.next(&line), LineReader::Outcome::kLine);
    EXPECT_EQ(line, "next");
    EXPECT_EQ(lines.number(), 2U);
    EXPECT_EQ(lines.next(&line), LineReader::Outcome::kEnd);
  }
}

// Goal: a failing source is told apart from its end, and an interrupted one is asked again.
// Method: a source that is interrupted, gives a line, and fails.
// Mutation: taking -1 for the end returns kEnd.
TEST(ImportRecords, FailingSource) {
  int call = 0;
  LineReader lines(
      [&call](char* to, std::size_t) -> std::ptrdiff_t {
        errno = call == 0 ? EINTR : EIO;
        if (call++ != 1) return -1;
        std::memcpy(to, "a\nb", 3);
        return 3;
      },
      /*line_bytes_max=*/100);
  std::string_view line;
  EXPECT_EQ(lines.next(&line), LineReader::Outcome::kLine);
  EXPECT_EQ(lines.next(&line), LineReader::Outcome::kFailed);
}

}  // namespace
}  // namespace breccia::cli
