#include "compaction/strings.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace breccia::compaction {

namespace {

constexpr std::string_view kFrame("\x01\x00\x00\x00", 4);
constexpr std::string_view kDigits = "0123456789ABCDEF";
constexpr std::string_view kSigns = "{};";

bool is_name(std::string_view text) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_part);
}

/// Where what begins with a brace ends: behind the brace that closes it; none if none does.
std::optional<std::size_t> end_of_braces(std::string_view text) {
  BRECCIA_ASSERT(text.starts_with('{'));
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{') depth += 1;
    if (text[at] == '}' && --depth == 0) return at + 1;
  }
  return std::nullopt;
}

/// Length of the value in front: up to the semicolon that ends it; none if nothing does.
std::optional<std::size_t> value_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && text[at] != ';') {
    if (text[at] == '}') return std::nullopt;
    if (text[at] != '{') {
      at += 1;
      continue;
    }
    // Braces enclose a value or an item of a list.
    if (at != 0 && text[at - 1] != ':') return std::nullopt;
    const auto bytes = end_of_braces(text.substr(at));
    if (!bytes) return std::nullopt;
    at += *bytes;
    if (at < text.size() && text[at] != ';' && text[at] != ':') return std::nullopt;
  }
  return at < text.size() ? std::optional(at) : std::nullopt;
}

template <class Word>
bool read_number(std::string_view text, Word* value) {
  Word word{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, word);
  if (error != std::errc() || stopped != end) return false;
  *value = word;
  return true;
}

}  // namespace

// ---- reading -----------------------------------------------------------------------------------

Result<std::string_view> unframed(std::string_view text) {
  if (text.size() < kFrame.size()) return Status::Corruption("a compaction's text without a frame");
  if (!text.starts_with(kFrame)) return Status::NotSupported("another form of compaction's text");
  return text.substr(kFrame.size());
}

Result<Fields> read_fields(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !is_name(text.substr(0, equals))) {
      return Status::Corruption("a compaction's text: no name of a field");
    }
    const std::string_view name = text.substr(0, equals);
    text.remove_prefix(equals + 1);
    const auto bytes = value_bytes(text);
    if (!bytes) return Status::Corruption("a compaction's text: no end of a field", Slice(name));
    if (!fields.emplace(name, text.substr(0, *bytes)).second) {
      return Status::Corruption("a compaction's text: a field stands twice", Slice(name));
    }
    text.remove_prefix(*bytes + 1);
  }
  return fields;
}

Result<Fields> read_nested(std::string_view text) {
  if (!text.starts_with('{') || end_of_braces(text) != text.size()) {
    return Status::Corruption("a compaction's text: no braces");
  }
  return read_fields(text.substr(1, text.size() - 2));
}

Result<std::vector<std::string>> read_list(std::string_view text) {
  std::vector<std::string> items;
  if (text.empty()) return items;
  for (;;) {
    std::size_t bytes = std::min(text.find(':'), text.size());
    if (text.starts_with('{')) {
      bytes = end_of_braces(text).value_or(0);
      if (bytes == 0) return Status::Corruption("a compaction's text: no end of an item");
    } else if (text.substr(0, bytes).find_first_of(kSigns) != std::string_view::npos) {
      return Status::Corruption("a compaction's text: a sign in an item");
    }
    if (bytes == 0) return Status::Corruption("a compaction's text: an empty item");
    items.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
    if (text.empty()) return items;
    if (text.front() != ':') return Status::Corruption("a compaction's text: words behind an item");
    text.remove_prefix(1);
  }
}

bool read_word(std::string_view text, std::uint64_t* value) { return read_number(text, value); }

bool read_word(std::string_view text, std::int64_t* value) { return read_number(text, value); }

bool read_word(std::string_view text, bool* value) {
  if (text != "true" && text != "false") return false;
  *value = text == "true";
  return true;
}

bool read_hex(std::string_view text, std::string* bytes) {
  if (text.size() % 2 != 0) return false;
  std::string read;
  read.reserve(text.size() / 2);
  for (std::size_t at = 0; at < text.size(); at += 2) {
    const std::size_t high = kDigits.find(text[at]);
    const std::size_t low = kDigits.find(text[at + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    read.push_back(static_cast<char>(high << 4 | low));
  }
  *bytes = std::move(read);
  return true;
}

// ---- writing -----------------------------------------------------------------------------------

std::string to_hex(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0xF]);
  }
  return text;
}

void FieldWriter::add_plain(std::string_view name, std::string_view value) {
  BRECCIA_ASSERT(is_name(name));
  BRECCIA_ASSERT(value.find_first_of(kSigns) == std::string_view::npos);
  fields_.append(name).append("=").append(value).append(";");
}

void FieldWriter::add_nested(std::string_view name, const FieldWriter& fields) {
  BRECCIA_ASSERT(is_name(name));
  fields_.append(name).append("={").append(fields.fields_).append("};");
}

void FieldWriter::add_nested_list(std::string_view name, const std::vector<FieldWriter>& items) {
  BRECCIA_ASSERT(is_name(name));
  fields_.append(name).append("=");
  if (!items.empty()) {
    char before = '{';
    for (const FieldWriter& item : items) {
      fields_.push_back(before);
      fields_.append("{").append(item.fields_).append("}");
      before = ':';
    }
    fields_.append("}");
  }
  fields_.append(";");
}

std::string FieldWriter::framed() const { return std::string(kFrame) + fields_; }

}  // namespace breccia::compaction
