#include "hot/model.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace breccia::hot {

/// So few a line that hardly any is full; where one is, all are half as full in the next try. Keys
/// that meet in one line all the same are not hot, but for some.
HotKeys::HotKeys(std::span<const std::uint64_t> hashes) : size_(hashes.size()) {
  constexpr std::uint64_t kKeysOfLine = 12;
  constexpr int kTries = 5;
  std::uint64_t lines = hashes.size() / kKeysOfLine + 1;
  for (int turn = 0; turn < kTries; ++turn, lines *= 2) {
    lines_.assign(lines, Line{});
    std::uint64_t left = 0;
    for (const std::uint64_t hash : hashes) left += add(hash) ? 0 : 1;
    if (left == 0) return;
  }
}

/// False: its line is full.
bool HotKeys::add(std::uint64_t hash) {
  if (is_hot(hash)) return true;
  Line& line = lines_[line_of(hash)];
  auto* const free = std::find(std::begin(line.tag), std::end(line.tag), std::uint16_t{0});
  if (free == std::end(line.tag)) return false;
  *free = tag_of(hash);
  return true;
}

HotBins::HotBins(std::vector<bool> hot)
    : hot_(std::move(hot)),
      size_(static_cast<std::uint64_t>(std::count(hot_.begin(), hot_.end(), true))) {
  BRECCIA_ASSERT(hot_.size() == kBins);
}

}  // namespace breccia::hot
