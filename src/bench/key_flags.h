#pragma once

#include <string>

#include "bench/key_set.h"
#include "console/app.h"

namespace breccia::bench {

/// Flags that say which keys a benchmark has, and how it chooses among them.
struct KeyFlags {
  std::uint64_t keys = 0;  // distinct, of all threads together; 0: as many as --num
  std::string key_set = "seq";
  std::uint32_t key_size = 16;
  double skew = 0;
  double misses = 0;

  void add_to(console::App* app);
  /// The keys, where each thread does `num` requests.
  [[nodiscard]] KeySet set(std::uint64_t num) const {
    return {key_shape(key_set), key_size, keys > 0 ? keys : num};
  }
  /// Errors  InvalidArgument: flags that say nothing, or keys that do not fit.
  [[nodiscard]] Status check(std::uint64_t num) const;
};

}  // namespace breccia::bench
