#pragma once

#include <algorithm>
#include <cstdint>

#include "base/result.h"
#include "exec/executor.h"
#include "hash/algo/missing.cuh"
#include "hash/ids/ids.h"

namespace breccia::hash {

/// Backend::list_missing() on an executor.
template <class X>
Status list_missing_on(X& x, const MissingListRef& list) {
  BRECCIA_TAKE(const auto number, exec::make_array<std::uint32_t>(x, list.count));
  BRECCIA_TAKE(const auto flag, exec::make_array<std::uint8_t>(x, list.count));
  BRECCIA_TAKE(const auto listed, exec::make_array<std::uint32_t>(x, list.count));
  const exec::Finish finish(x);
  BRECCIA_TRY(x.follow(list.stream));
  std::uint64_t missing = 0;
  if (list.count > 0) {
    BRECCIA_TRY(x.template launch<32>(
        list.count, algo::FlagMissing{list.found, number.data(), flag.data(), list.count}));
    BRECCIA_TRY(x.select(number.data(), flag.data(), list.count, listed.data(), &missing));
    BRECCIA_ASSERT(missing <= list.count);
  }
  // What a caller has is no memory of the executor's pool, which is all that select() writes.
  BRECCIA_TRY(x.template launch<32>(
      std::max<std::uint64_t>(missing, 1),
      algo::StoreMissing{listed.data(), missing, list.missing, list.missing_count}));
  return x.finish();
}

}  // namespace breccia::hash
