#pragma once

#include <cstdint>

#include "base/result.h"
#include "exec/group.h"

namespace breccia::exec {

/// Item i: at[i] becomes T{}.
template <class T>
struct Clear {
  T* at;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    each_item(group, first, count, [&](std::uint64_t i) { at[i] = T{}; });
  }
};

template <class X, class T>
Status clear(X& x, T* at, std::uint64_t count) {
  return x.template launch<32>(count, Clear<T>{at, count});
}

}  // namespace breccia::exec
