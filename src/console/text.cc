#include "console/text.h"

#include <nlohmann/json.hpp>

namespace breccia::console {

namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text = "0x";
  text.reserve(2 + 2 * bytes.size());
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (!text.starts_with("0x") || text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2 - 1);
  for (std::size_t at = 2; at < text.size(); at += 2) {
    const int high = digit(text[at]);
    const int low = digit(text[at + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::string tsv_escape(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    switch (c) {
      case '\t':
        text += "\\t";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\\':
        text += "\\\\";
        break;
      default:
        text += c;
    }
  }
  return text;
}

bool tsv_unescape(std::string_view text, std::string* bytes) {
  bytes->clear();
  while (true) {
    const std::size_t at = text.find('\\');
    bytes->append(text.substr(0, at));
    if (at == std::string_view::npos) return true;
    if (at + 1 == text.size()) return false;
    switch (text[at + 1]) {
      case 't':
        *bytes += '\t';
        break;
      case 'n':
        *bytes += '\n';
        break;
      case '\\':
        *bytes += '\\';
        break;
      default:
        return false;
    }
    text.remove_prefix(at + 2);
  }
}

bool is_utf8(std::string_view bytes) {
  // The library checks strings when it writes them; asking it keeps one opinion on what is valid.
  using Json = nlohmann::json;
  const Json json = std::string(bytes);
  const auto text = json.dump(-1, ' ', false, Json::error_handler_t::ignore);
  return Json::parse(text).get_ref<const std::string&>() == bytes;
}

}  // namespace breccia::console
