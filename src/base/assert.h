#pragma once

#include <cstdio>
#include <cstdlib>

/// Assertions. A failed one is a programmer's error and ends the process with its place.
///
/// BRECCIA_ASSERT stays on in release builds of host code; it must be cheap.
/// BRECCIA_INVARIANT may be costly; it is asked only where BRECCIA_INVARIANTS is defined, and
/// compiled everywhere.

namespace breccia::base {

[[noreturn]] inline void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace breccia::base

#if defined(__CUDA_ARCH__)
#define BRECCIA_ASSERT(condition) ((void)0)
#else
#define BRECCIA_ASSERT(condition) \
  ((condition) ? (void)0 : ::breccia::base::assertion_failed(#condition, __FILE__, __LINE__))
#endif

#if defined(BRECCIA_INVARIANTS)
#define BRECCIA_INVARIANT(condition) BRECCIA_ASSERT(condition)
#else
#define BRECCIA_INVARIANT(condition) ((void)(true || (condition)))
#endif
