#pragma once

#include <breccia/hot_options.h>

#include "base/random.h"

namespace breccia::testing {

/// A tier of hot keys that has few of them, and finds others every few hundred requests, whether it
/// pays or not.
inline HotOptions restless_tier(base::Random* random, std::uint64_t keys_max = 4) {
  return {.keys_max = 1 + random->below(keys_max),
          .value_bytes_max = random->one_in(4) ? 16U : 64U << 10,
          .sample_one_in = 1,
          .samples_of_window = std::uint64_t{128} << random->below(3),
          .gain_min = -1};
}

}  // namespace breccia::testing
