#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace breccia::model {

/// The keys of a stream. The first few are hot.
struct Universe {
  std::vector<std::string> keys;

  /// The place of a random key; every second one is hot.
  [[nodiscard]] std::uint32_t pick(base::Random* random) const;
};

/// `count` keys, all different: the empty key, binary keys, keys with equal prefixes, keys that end
/// in zero bytes, rarely keys up to the limit; or, for every third seed, keys of one length.
/// Each begins with `prefix`.
[[nodiscard]] Universe make_universe(std::uint64_t seed, std::uint64_t count,
                                     const std::string& prefix);

/// A value: mostly short, at times empty, rarely up to 100 KiB.
[[nodiscard]] std::string make_value(base::Random* random);

}  // namespace breccia::model
