#pragma once

#include <optional>
#include <string>
#include <string_view>

/// How keys and values look on the command line and in text files.
namespace breccia::console {

/// Bytes as ldb prints them under --hex: `0x` and upper-case digits.
std::string to_hex(std::string_view bytes);
/// The bytes of `0x...`; nothing if that is not what `text` is.
std::optional<std::string> from_hex(std::string_view text);

/// Escapes tab, line feed and backslash as \t, \n and \\.
std::string tsv_escape(std::string_view bytes);
/// Undoes tsv_escape into *bytes.
/// Errors  false: a backslash stands before anything else, or ends the text.
[[nodiscard]] bool tsv_unescape(std::string_view text, std::string* bytes);

/// True if `bytes` is UTF-8, so that JSON can carry it.
bool is_utf8(std::string_view bytes);

}  // namespace breccia::console
