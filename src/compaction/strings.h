#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// The texts in which RocksDB 7.8 tells of a compaction and hears of its outcome:
///
///   text   = 01 00 00 00, fields
///   fields = (name "=" value ";")*
///   value  = plain text | "{" fields "}" | item (":" item)*
///   item   = plain text | "{" fields "}"
///
/// Words that may be any bytes stand in hex. Whatever else differs from that is an error: RocksDB
/// escapes nothing, so a word with one of these signs in it may have changed the meaning of others.

namespace breccia::compaction {

/// By name; a nested value keeps its braces.
using Fields = std::map<std::string, std::string, std::less<>>;

/// Behind the four bytes.
/// Errors  NotSupported: they say something else; Corruption: there are none.
Result<std::string_view> unframed(std::string_view text);

/// Errors  Corruption: no fields, or one of them twice.
Result<Fields> read_fields(std::string_view text);
/// The fields between braces.
/// Errors  Corruption.
Result<Fields> read_nested(std::string_view text);
/// The items, which keep their braces; none of an empty text.
/// Errors  Corruption.
Result<std::vector<std::string>> read_list(std::string_view text);

/// Each false, and nothing read, if it is no such word.
[[nodiscard]] bool read_word(std::string_view text, std::uint64_t* value);
[[nodiscard]] bool read_word(std::string_view text, std::int64_t* value);
[[nodiscard]] bool read_word(std::string_view text, bool* value);
/// Of upper-case hex.
[[nodiscard]] bool read_hex(std::string_view text, std::string* bytes);

/// Upper-case hex.
[[nodiscard]] std::string to_hex(std::string_view bytes);

/// Writes fields in the order in which they come.
class FieldWriter {
 public:
  template <std::integral Word>
  requires(!std::same_as<Word, bool>) void add(std::string_view name, Word value) {
    add_plain(name, std::to_string(value));
  }
  void add(std::string_view name, bool value) { add_plain(name, value ? "true" : "false"); }
  void add_hex(std::string_view name, std::string_view bytes) { add_plain(name, to_hex(bytes)); }
  /// A value that has none of the signs.
  void add_plain(std::string_view name, std::string_view value);
  void add_nested(std::string_view name, const FieldWriter& fields);
  /// `{{..}:{..}}`: RocksDB finds the end of a list of nested values only by braces around it.
  void add_nested_list(std::string_view name, const std::vector<FieldWriter>& items);

  [[nodiscard]] const std::string& fields() const { return fields_; }
  /// With the four bytes before them.
  [[nodiscard]] std::string framed() const;

 private:
  std::string fields_;
};

}  // namespace breccia::compaction
