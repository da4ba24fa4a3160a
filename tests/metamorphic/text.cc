#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "list.h"

/// An operation's text is its name and its fields, each with a letter in front; a batch's parts
/// stand behind a colon:
///
///   put f0 k12 v5.1f
///   batch sync variant : merge f1 k3 v8.2a; get f1 k3; range f0 k1 e7 n10

namespace breccia::metamorphic {

namespace {

constexpr std::array<std::string_view, kKinds> kNames = {"put",
                                                         "delete",
                                                         "single_delete",
                                                         "merge",
                                                         "delete_range",
                                                         "get",
                                                         "range",
                                                         "batch",
                                                         "multi_get",
                                                         "read",
                                                         "indexed",
                                                         "begin",
                                                         "within",
                                                         "commit",
                                                         "rollback",
                                                         "save_point",
                                                         "back_to_save_point",
                                                         "pop_save_point",
                                                         "snapshot",
                                                         "release",
                                                         "iterator",
                                                         "seek",
                                                         "seek_for_prev",
                                                         "seek_to_first",
                                                         "seek_to_last",
                                                         "next",
                                                         "prev",
                                                         "refresh",
                                                         "close",
                                                         "scan",
                                                         "create",
                                                         "drop",
                                                         "flush",
                                                         "compact",
                                                         "sync",
                                                         "reopen",
                                                         "crash",
                                                         "plain"};

constexpr std::string_view kApis[] = {"store", "optimistic", "locking"};

constexpr std::string_view kDurabilities[] = {"none", "default", "sync"};

void append_field(std::string* text, char letter, std::uint32_t value) {
  if (value != kNone) fmt::format_to(std::back_inserter(*text), " {}{}", letter, value);
}

void append(const Op& op, std::string* text) {
  *text += kNames[static_cast<std::size_t>(op.kind)];
  if (op.durability != Durability::kDefault) {
    *text += ' ';
    *text += kDurabilities[static_cast<std::size_t>(op.durability)];
  }
  if (op.variant) *text += " variant";
  append_field(text, 'f', op.family);
  append_field(text, 's', op.snapshot);
  append_field(text, 'i', op.iterator);
  append_field(text, 't', op.transaction);
  append_field(text, 'k', op.key);
  append_field(text, 'e', op.end);
  if (op.number != 0) append_field(text, 'n', op.number);
  if (op.value != Value()) {
    fmt::format_to(std::back_inserter(*text), " v{}.{:x}", op.value.bytes, op.value.fill);
  }
  for (std::size_t i = 0; i < op.parts.size(); ++i) {
    *text += i == 0 ? " : " : "; ";
    append(op.parts[i], text);
  }
}

template <class Number>
bool read_number(std::string_view text, Number* number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_value(std::string_view text, Value* value) {
  const std::size_t dot = text.find('.');
  return dot != std::string_view::npos && read_number(text.substr(0, dot), &value->bytes, 10) &&
         read_number(text.substr(dot + 1), &value->fill, 16);
}

bool read_field(std::string_view word, Op* op) {
  if (word == "variant") return op->variant = true;
  for (std::size_t i = 0; i < std::size(kDurabilities); ++i) {
    if (word != kDurabilities[i]) continue;
    op->durability = static_cast<Durability>(i);
    return true;
  }
  const std::string_view rest = word.substr(1);
  switch (word[0]) {
    case 'f':
      return read_number(rest, &op->family, 10) && op->family < kFamilies;
    case 's':
      return read_number(rest, &op->snapshot, 10) && op->snapshot < kSnapshots;
    case 'i':
      return read_number(rest, &op->iterator, 10) && op->iterator < kIterators;
    case 't':
      return read_number(rest, &op->transaction, 10) && op->transaction < kTransactions;
    case 'k':
      return read_number(rest, &op->key, 10);
    case 'e':
      return read_number(rest, &op->end, 10);
    case 'n':
      return read_number(rest, &op->number, 10);
    case 'v':
      return read_value(rest, &op->value);
    default:
      return false;
  }
}

/// Cuts the text up to `separator` off the front of *text.
std::string_view cut(std::string_view* text, std::string_view separator) {
  const std::size_t at = text->find(separator);
  const std::string_view front = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + separator.size());
  return front;
}

std::optional<Op> parse_op(std::string_view text) {
  std::string_view parts = text;
  std::string_view own = cut(&parts, " : ");
  const auto name = std::find(kNames.begin(), kNames.end(), cut(&own, " "));
  if (name == kNames.end()) return {};
  Op op;
  op.kind = static_cast<Kind>(name - kNames.begin());
  while (!own.empty()) {
    const std::string_view word = cut(&own, " ");
    if (word.empty() || !read_field(word, &op)) return {};
  }
  while (!parts.empty()) {
    auto part = parse_op(cut(&parts, "; "));
    if (!part.has_value() || !has_parts(op.kind)) return {};
    op.parts.push_back(std::move(*part));
  }
  return op;
}

/// True if the op names keys of the list only.
bool has_keys(const Op& op, std::uint32_t keys) {
  for (const Op& part : op.parts) {
    if (!has_keys(part, keys)) return false;
  }
  return (op.key == kNone || op.key < keys) && (op.end == kNone || op.end < keys);
}

bool parse_line(const std::string& line, List* list) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "keys") return static_cast<bool>(words >> list->seed >> list->keys);
  if (word == "sets") {
    for (std::uint32_t set; words >> set;) list->sets.push_back(set);
    return words.eof();
  }
  if (const auto api = std::find(std::begin(kApis), std::end(kApis), line);
      api != std::end(kApis)) {
    list->api = static_cast<Api>(api - std::begin(kApis));
    return true;
  }
  auto op = parse_op(line);
  if (!op.has_value() || !has_keys(*op, list->keys)) return false;
  list->ops.push_back(std::move(*op));
  return true;
}

}  // namespace

std::string print(const Op& op) {
  std::string text;
  append(op, &text);
  return text;
}

std::string print(const List& list) {
  std::string api;
  if (list.api != Api::kStore) api = fmt::format("{}\n", kApis[static_cast<std::size_t>(list.api)]);
  std::string text =
      fmt::format("keys {} {}\n{}sets {}\n", list.seed, list.keys, api, fmt::join(list.sets, " "));
  for (const Op& op : list.ops) {
    append(op, &text);
    text += '\n';
  }
  return text;
}

Result<List> parse(const std::string& text) {
  List list;
  std::istringstream lines(text);
  std::uint64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    if (!parse_line(line, &list)) {
      return Status::InvalidArgument(fmt::format("line {}: {}", number, line.substr(0, 80)));
    }
  }
  return list;
}

}  // namespace breccia::metamorphic
