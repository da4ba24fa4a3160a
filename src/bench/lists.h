#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

/// Lists on the command line.

namespace breccia::bench {

/// Words with commas between them.
inline std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

/// Numbers with commas between them, each `most` at most; none: it is no such list.
inline std::vector<std::uint32_t> numbers_of(const std::string& list, std::uint32_t most) {
  std::vector<std::uint32_t> numbers;
  for (const std::string& word : words_of(list)) {
    std::uint32_t number = 0;
    const char* const end = word.data() + word.size();
    const auto [behind, error] = std::from_chars(word.data(), end, number);
    if (error != std::errc() || behind != end || number > most) return {};
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace breccia::bench
