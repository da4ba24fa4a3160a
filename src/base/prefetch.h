#pragma once

#if defined(__CUDACC__)
#define BRECCIA_PREFETCH_HD __host__ __device__
#else
#define BRECCIA_PREFETCH_HD
#endif

/// Hints that a line of memory is used soon. They are the only place where the compiler's own are
/// used: GCC takes a function that does nothing but prefetch for one without effects, and drops
/// calls of it that it does not inline. The empty statement here is an effect.
namespace breccia::base {

/// The line at `at` is read soon. Device code: nothing, as other threads run meanwhile.
BRECCIA_PREFETCH_HD inline void prefetch([[maybe_unused]] const void* at) {
#if !defined(__CUDA_ARCH__)
  __builtin_prefetch(at);
  asm volatile("");
#endif
}

/// The same into the second cache alone, for what is read only after much else.
inline void prefetch_far(const void* at) {
  constexpr int kRead = 0;
  constexpr int kSecondCache = 2;
  __builtin_prefetch(at, kRead, kSecondCache);
  asm volatile("");
}

/// The line at `at` is written soon.
inline void prefetch_to_write(const void* at) {
  constexpr int kWrite = 1;
  __builtin_prefetch(at, kWrite);
  asm volatile("");
}

}  // namespace breccia::base
