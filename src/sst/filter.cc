#include "sst/filter.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"

namespace breccia::sst {

namespace {

/// Up to how many thousandths of a bit a key 1, 2, ... probes are made.
constexpr std::uint32_t kMillibitsMax[] = {2080,  3580,  5100,  6640,  8300,  10070,
                                           11720, 14001, 16050, 18300, 22001, 25501};
constexpr std::uint32_t kProbesMax = 24;

std::uint32_t probes_of(std::uint32_t millibits) {
  if (millibits > 50000) return kProbesMax;
  const auto* const at = std::find_if(std::begin(kMillibitsMax), std::end(kMillibitsMax),
                                      [&](std::uint32_t most) { return millibits <= most; });
  if (at != std::end(kMillibitsMax)) {
    return static_cast<std::uint32_t>(at - std::begin(kMillibitsMax)) + 1;
  }
  return (millibits - 1) / 2000 - 1;
}

}  // namespace

FilterShape FilterShape::of(std::uint64_t hashes, std::uint32_t millibits) {
  BRECCIA_ASSERT(hashes > 0 && millibits > 0);
  // Readers know lengths of 32 bits.
  const std::uint64_t bytes =
      std::min<std::uint64_t>((hashes * millibits + 7999) / 8000, 0xFFFFFFC0);
  return {(bytes + kLineBytes - 1) / kLineBytes, probes_of(millibits)};
}

std::string FilterShape::tail() const {
  const char bytes[] = {static_cast<char>(0xFF), 0, static_cast<char>(probes), 0, 0};
  return {bytes, sizeof bytes};
}

}  // namespace breccia::sst
