#pragma once

/// The executor contract: what algorithms are written over, once. X offers
///
///   static constexpr bool kIsHost                what it answers is the CPU's word
///   static constexpr bool kIsAsync               it goes on beside the host, and beside others:
///                                                a call may have several executors
///   static constexpr u64 kCountedMax             so few entries are in order sooner by counting,
///   for
///                                                each, those before it, than by a sort; 0: none
///   Pool& pool()
///   Status launch<W>(count, functor)             functor(group, first) for first = 0, W, 2W, ...
///   Status sort_pairs(u64* keys, u32* ids, n)    stable, ascending
///   Status stable_sort(u32* ids, n, less)
///   Status merge(a, na, b, nb, out, less)        stable: equal entries of `a` first
///   Status exclusive_scan(const u64* in, u64* out, n, u64* total)    total on the host
///   Status select(const u32* in, const u8* flags, n, u32* out, u64* count)  count on the host
///   Status select_here(in, flags, n, out, u64* count)    count in backend memory: no wait
///   Status make_room_to_select(n)                before select_here() of so many, or it may wait
///   Status difference(const u64* words, n, u64* bits)   bits in which any two words differ
///   Result<Import<T>> import(const T* host, n)   .data(): where the executor can read it
///   Status copy(T* to, const T* from, n)         within backend memory
///   Status copy_out(T* host, const T* from, n)
///   u64* words()                                 kWords of the host's, for what a kernel answers
///   T* reach(T* host)                            host memory as the executor can write it, or null
///   Status follow(void* stream)                  begins behind what a caller's stream has to do
///   Status enter(void* stream)                   what comes next, up to finish(), is that stream's
///                                                own, in its order; behind all that was before
///   Status leave()                               behind all that: finish() waits for no more
///   Status finish()                              waits for all of it, and hears of a lost device
///   bool has_work()                              whether there may be something to wait for
/// An operation that fails waits for what runs before it returns.

#include <cstdint>

#include "exec/pool.h"

namespace breccia::exec {

inline constexpr std::uint64_t kWords = 2;

/// Waits at its end for what an executor does with arrays that were declared before it: they must
/// not go back while it is worked on them.
template <class X>
class Finish {
 public:
  explicit Finish(X& x) : x_(&x) {}
  ~Finish() {
    // To say that there is nothing takes a driver a microsecond, too.
    if (x_ != nullptr && x_->has_work()) (void)x_->finish();
  }
  Finish(const Finish&) = delete;
  Finish& operator=(const Finish&) = delete;

  /// Somebody else waits for it.
  void dismiss() { x_ = nullptr; }

 private:
  X* x_;
};

/// An array of work space. When memory is short, what runs already is waited for first: the caller
/// is about to give back arrays that it may still use.
template <class T, class X>
Result<Array<T>> make_array(X& x, std::uint64_t count) {
  auto array = Array<T>::make(x.pool(), count);
  if (!array.ok()) (void)x.finish();
  return array;
}

}  // namespace breccia::exec
