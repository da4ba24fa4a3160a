#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

/// Records from text, one at a time, so that a file may be larger than memory.
namespace breccia::cli {

/// Lines of a stream. A line ends with a line feed, which is not part of it, or with the stream.
/// Threads one owner.
class LineReader {
 public:
  /// Fills up to `size` bytes at `to`; returns how many, 0 at the end, -1 with errno on failure.
  using Source = std::function<std::ptrdiff_t(char* to, std::size_t size)>;
  enum class Outcome { kLine, kEnd, kTooLong, kFailed };

  /// Shape   lines of up to `line_bytes_max`; of a longer one the rest is skipped.
  LineReader(Source source, std::size_t line_bytes_max);

  /// The next line; it stays valid until the next call.
  Outcome next(std::string_view* line);

  /// Number of the last line, counted from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Bytes taken from the source.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  bool refill();
  Outcome skip_rest();

  Source source_;
  const std::size_t line_bytes_max_;
  std::string buffer_;
  std::size_t begin_ = 0;  // buffer_[begin_, end_) was read and not yet handed out
  std::size_t end_ = 0;
  bool at_end_ = false;
  bool failed_ = false;
  std::uint64_t number_ = 0;
  std::uint64_t bytes_ = 0;
};

struct Record {
  std::string_view key;
  std::string_view value;
};

/// Turns lines into records.
/// Threads one owner.
class RecordReader {
 public:
  enum class Outcome { kRecord, kEnd, kBad, kFailed };

  virtual ~RecordReader() = default;

  /// The next record; it stays valid until the next call. After kBad the reader stands behind the
  /// bad record and can go on.
  virtual Outcome next(Record* record) = 0;

  /// Line where the last record, or what was bad, begins.
  [[nodiscard]] std::uint64_t line() const { return line_; }
  /// What was bad, as the end of a sentence that begins with the line number.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::uint64_t bytes() const { return lines_.bytes(); }

 protected:
  explicit RecordReader(LineReader lines) : lines_(std::move(lines)) {}
  Outcome bad(std::string problem) {
    problem_ = std::move(problem);
    return Outcome::kBad;
  }
  /// The next line as an outcome: kRecord stands for a line.
  Outcome next_line(std::string_view* line);

  LineReader lines_;
  std::uint64_t line_ = 0;

 private:
  std::string problem_;
};

struct RecordFormat {
  enum class Name { kTsv, kJsonLines, kStanza };
  Name name = Name::kTsv;
  std::string key_field;    // empty: `key` in JSON lines; required for stanzas
  std::string value_field;  // empty: `value` in JSON lines unless key_field is set; else the whole
};

/// A reader of `format` over `source`.
std::unique_ptr<RecordReader> make_record_reader(const RecordFormat& format,
                                                 LineReader::Source source);

}  // namespace breccia::cli
