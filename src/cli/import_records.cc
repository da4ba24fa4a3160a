#include "cli/import_records.h"

#include <fmt/format.h>
#include <strings.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/assert.h"
#include "base/limits.h"
#include "console/text.h"

namespace breccia::cli {

LineReader::LineReader(Source source, std::size_t line_bytes_max)
    : source_(std::move(source)), line_bytes_max_(line_bytes_max) {
  buffer_.resize(std::min<std::size_t>(line_bytes_max + 1, 1 << 20));
}

// Reads more behind end_, making room first. False: end or failure, or a line over the limit
// fills the buffer.
bool LineReader::refill() {
  if (at_end_ || failed_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (buffer_.size() > line_bytes_max_) return false;
    buffer_.resize(std::min(line_bytes_max_ + 1, 2 * buffer_.size()));
  }
  std::ptrdiff_t got = -1;
  do {
    got = source_(buffer_.data() + end_, buffer_.size() - end_);
  } while (got < 0 && errno == EINTR);
  failed_ = got < 0;
  at_end_ = got == 0;
  if (got <= 0) return false;
  end_ += static_cast<std::size_t>(got);
  bytes_ += static_cast<std::uint64_t>(got);
  return true;
}

LineReader::Outcome LineReader::skip_rest() {
  while (true) {
    const void* feed = std::memchr(buffer_.data() + begin_, '\n', end_ - begin_);
    if (feed != nullptr) {
      begin_ = static_cast<std::size_t>(static_cast<const char*>(feed) - buffer_.data()) + 1;
      return Outcome::kTooLong;
    }
    begin_ = end_;
    if (!refill()) return failed_ ? Outcome::kFailed : Outcome::kTooLong;
  }
}

LineReader::Outcome LineReader::next(std::string_view* line) {
  std::size_t searched = 0;
  ++number_;
  while (true) {
    const char* begin = buffer_.data() + begin_;
    const void* feed = std::memchr(begin + searched, '\n', end_ - begin_ - searched);
    if (feed != nullptr) {
      *line = {begin, static_cast<const char*>(feed)};
      begin_ += line->size() + 1;
      return Outcome::kLine;
    }
    searched = end_ - begin_;
    if (refill()) continue;
    if (failed_) return Outcome::kFailed;
    if (!at_end_) return skip_rest();
    if (searched == 0) {
      --number_;
      return Outcome::kEnd;
    }
    *line = {buffer_.data() + begin_, searched};
    begin_ = end_;
    return Outcome::kLine;
  }
}

RecordReader::Outcome RecordReader::next_line(std::string_view* line) {
  const auto outcome = lines_.next(line);
  line_ = lines_.number();
  switch (outcome) {
    case LineReader::Outcome::kLine:
      return Outcome::kRecord;
    case LineReader::Outcome::kEnd:
      return Outcome::kEnd;
    case LineReader::Outcome::kFailed:
      return Outcome::kFailed;
    case LineReader::Outcome::kTooLong:
      break;
  }
  return bad("is longer than a record can be");
}

namespace {

class TsvReader final : public RecordReader {
 public:
  explicit TsvReader(LineReader lines) : RecordReader(std::move(lines)) {}

  Outcome next(Record* record) override {
    std::string_view line;
    const Outcome outcome = next_line(&line);
    if (outcome != Outcome::kRecord) return outcome;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) return bad("has no tab between key and value");
    if (line.find('\t', tab + 1) != std::string_view::npos) {
      return bad("has more than one tab; write a tab in a value as \\t");
    }
    if (!console::tsv_unescape(line.substr(0, tab), &key_) ||
        !console::tsv_unescape(line.substr(tab + 1), &value_)) {
      return bad("has a backslash that is none of \\t, \\n, \\\\");
    }
    *record = {key_, value_};
    return Outcome::kRecord;
  }

 private:
  std::string key_;
  std::string value_;
};

class JsonReader final : public RecordReader {
 public:
  JsonReader(LineReader lines, const RecordFormat& format)
      : RecordReader(std::move(lines)),
        key_field_(format.key_field.empty() ? "key" : format.key_field),
        value_field_(format.value_field),
        value_by_habit_(format.value_field.empty() && format.key_field.empty()) {}

  Outcome next(Record* record) override {
    std::string_view line;
    do {
      const Outcome outcome = next_line(&line);
      if (outcome != Outcome::kRecord) return outcome;
    } while (line.find_first_not_of(" \t\r") == std::string_view::npos);
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return bad("is not a JSON object");
    const auto key = object.find(key_field_);
    if (key == object.end()) return bad(fmt::format("has no field `{}`", key_field_));
    if (!key->is_string() && !key->is_number_integer()) {
      return bad(fmt::format("has a `{}` that is neither a string nor an integer", key_field_));
    }
    key_ = text_of(*key);
    const auto value = object.find(value_by_habit_ ? "value" : value_field_);
    if (value != object.end()) {
      value_ = text_of(*value);
    } else if (value_field_.empty()) {
      value_ = line;
    } else {
      return bad(fmt::format("has no field `{}`", value_field_));
    }
    *record = {key_, value_};
    return Outcome::kRecord;
  }

 private:
  using Json = nlohmann::ordered_json;

  static std::string text_of(const Json& field) {
    return field.is_string() ? field.get<std::string>() : field.dump();
  }

  const std::string key_field_;
  const std::string value_field_;
  const bool value_by_habit_;
  std::string key_;
  std::string value_;
};

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// A field's name is ASCII and its case does not matter.
bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

class StanzaReader final : public RecordReader {
 public:
  StanzaReader(LineReader lines, const RecordFormat& format)
      : RecordReader(std::move(lines)),
        key_field_(format.key_field),
        value_field_(format.value_field) {
    BRECCIA_ASSERT(!key_field_.empty());
  }

  Outcome next(Record* record) override {
    key_.reset();
    field_.reset();
    stanza_.clear();
    std::uint64_t first = 0;
    while (true) {
      std::string_view line;
      const Outcome outcome = next_line(&line);
      if (outcome == Outcome::kFailed) return outcome;
      if (outcome == Outcome::kBad) return skip_stanza();
      if (outcome == Outcome::kEnd && first == 0) return outcome;
      if (outcome == Outcome::kRecord && !blank(line)) {
        if (first == 0) first = line_;
        take(line);
        if (stanza_.size() > limits::kValueBytesMax) return skip_stanza();
      } else if (first != 0) {
        line_ = first;
        return finish(record);
      }
    }
  }

 private:
  void take(std::string_view line) {
    stanza_.append(line) += '\n';
    const bool continues = line[0] == ' ' || line[0] == '\t';
    if (continues) {
      if (in_field_) field_->append("\n").append(trimmed(line));
      return;
    }
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    in_field_ = !value_field_.empty() && same_name(name, value_field_);
    if (colon == std::string_view::npos) return;
    if (in_field_) field_ = trimmed(line.substr(colon + 1));
    if (same_name(name, key_field_)) key_ = trimmed(line.substr(colon + 1));
    in_field_ = in_field_ && field_.has_value();
  }

  Outcome finish(Record* record) {
    in_field_ = false;
    if (!key_) return bad(fmt::format("begins a stanza without a field `{}`", key_field_));
    if (!value_field_.empty() && !field_) {
      return bad(fmt::format("begins a stanza without a field `{}`", value_field_));
    }
    *record = {*key_, field_ ? std::string_view(*field_) : std::string_view(stanza_)};
    return Outcome::kRecord;
  }

  // Of a stanza with a bad line no part is taken.
  Outcome skip_stanza() {
    const std::uint64_t at = line_;
    std::string_view line;
    Outcome outcome = Outcome::kBad;
    do {
      outcome = next_line(&line);
      if (outcome == Outcome::kFailed) return outcome;
    } while (outcome == Outcome::kBad || (outcome == Outcome::kRecord && !blank(line)));
    line_ = at;
    in_field_ = false;
    return bad("belongs to a stanza that is longer than a record can be");
  }

  const std::string key_field_;
  const std::string value_field_;
  std::optional<std::string> key_;
  std::optional<std::string> field_;
  bool in_field_ = false;
  std::string stanza_;
};

}  // namespace

std::unique_ptr<RecordReader> make_record_reader(const RecordFormat& format,
                                                 LineReader::Source source) {
  // A value of the largest size whose every byte is escaped, and its key, still fit in a line.
  constexpr std::size_t kLineBytesMax = 2 * (limits::kValueBytesMax + limits::kKeyBytesMax) + 1;
  LineReader lines(std::move(source), kLineBytesMax);
  switch (format.name) {
    case RecordFormat::Name::kTsv:
      return std::make_unique<TsvReader>(std::move(lines));
    case RecordFormat::Name::kJsonLines:
      return std::make_unique<JsonReader>(std::move(lines), format);
    case RecordFormat::Name::kStanza:
      break;
  }
  return std::make_unique<StanzaReader>(std::move(lines), format);
}

}  // namespace breccia::cli
