#pragma once

#include <dlfcn.h>

#include "base/assert.h"

/// The way from an interposed function to the one of librocksdb that it stands before.

namespace breccia::preload {

/// librocksdb's function of the same name and type as `ours`, which this library exports.
///
/// The name is looked up, not written down: dladdr() finds the symbol of `ours`, dlsym() the next
/// one of that name. This library needs librocksdb, so there is one.
template <class Function>
Function* real(Function* ours) {
  Dl_info symbol = {};
  BRECCIA_ASSERT(dladdr(reinterpret_cast<void*>(ours), &symbol) != 0);
  BRECCIA_ASSERT(symbol.dli_saddr == reinterpret_cast<void*>(ours));
  void* const next = dlsym(RTLD_NEXT, symbol.dli_sname);
  BRECCIA_ASSERT(next != nullptr && next != symbol.dli_saddr);
  return reinterpret_cast<Function*>(next);
}

/// True while the calling thread is inside an interposed function. What is called from there, the
/// engine's calls into RocksDB and librocksdb's calls of itself, goes to librocksdb.
class Inside {
 public:
  Inside() { ++depth_; }
  ~Inside() { --depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  [[nodiscard]] static bool is() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

}  // namespace breccia::preload
