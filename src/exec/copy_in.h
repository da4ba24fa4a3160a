#pragma once

#include <cstdint>

#include "exec/executor.h"

namespace breccia::exec {

/// A copy in the executor's memory, done on return.
/// Shape   host[count]
/// Errors  MemoryLimit; those of the device.
template <class T, class X>
Result<Array<T>> copy_in(X& x, const T* host, std::uint64_t count) {
  BRECCIA_TAKE(const auto from, x.import(host, count));
  BRECCIA_TAKE(auto copy, make_array<T>(x, count));
  BRECCIA_TRY(x.copy(copy.data(), from.data(), count));
  BRECCIA_TRY(x.finish());
  return Result<Array<T>>(std::move(copy));
}

}  // namespace breccia::exec
