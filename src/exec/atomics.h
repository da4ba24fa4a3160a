#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/group.h"

#if defined(__CUDACC__)
#include <cuda/atomic>
#endif

/// Atomics for code that runs on any executor. A name says what is done, in which order, and for
/// whom: `device` for the groups of one device, `system` for those, the host's threads and other
/// devices besides. Every call takes the group that makes it: the simulator may let other groups go
/// on before each.
///
///   load_{relaxed,acquire}_{device,system}(group, from)
///   store_{relaxed,release}_{device,system}(group, to, value)
///   exchange_acq_rel_{device,system}(group, at, value)                    returns what was there
///   compare_exchange_acq_rel_{device,system}(group, at, expected, value)  the same; stored if
///   equal add_{relaxed,acq_rel}_{device,system}(group, at, value)               the same
///   or_{relaxed,acquire,acq_rel}_…, and_acq_rel_…                         the same
///   fence_{acquire,release,seq_cst}_{device,system}(group)
///   load_hint(group, from)                                  a word, maybe as it was before
///   load_two_relaxed_device(group, from)                     two words, each by itself
///   load_pair_device(group, from)                            second is not older than first
///   store_pair_device(group, to, value)                      the same; of a pair that only the
///   caller changes, and that nobody expects in an exchange
///   acquire_pair_device(group, from), load_named_pair_device(group, from)    what a pair names
///   compare_exchange_pair_device(group, at, expected, value) relaxed on a device, and acq_rel on
///   the host: what else a pair speaks of needs a fence
///
/// Shape   4 or 8 bytes of plain data, aligned; pairs 16. On the host and in the simulator both
///         scopes are the system's.
/// Source  PTX memory model; the C++ one on the host.

namespace breccia::exec {

namespace atomics {

/// Where a rival may come in between. A SimGroup asks its scheduler; others have nothing to do.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void may_switch(const Group& group) {
  if constexpr (requires { group.may_switch(); }) group.may_switch();
}

#if defined(__CUDACC__)
struct DeviceScope {
  static constexpr auto kValue = ::cuda::thread_scope_device;
};
struct SystemScope {
  static constexpr auto kValue = ::cuda::thread_scope_system;
};
template <class Scope, class T>
using Ref = ::cuda::atomic_ref<T, Scope::kValue>;
inline constexpr auto kRelaxed = ::cuda::memory_order_relaxed;
inline constexpr auto kAcquire = ::cuda::memory_order_acquire;
inline constexpr auto kRelease = ::cuda::memory_order_release;
inline constexpr auto kAcqRel = ::cuda::memory_order_acq_rel;
inline constexpr auto kSeqCst = ::cuda::memory_order_seq_cst;
template <class Scope>
__host__ __device__ void fence(::cuda::memory_order order) {
  ::cuda::atomic_thread_fence(order, Scope::kValue);
}
#else
struct DeviceScope {};
struct SystemScope {};
inline constexpr int kRelaxed = __ATOMIC_RELAXED;
inline constexpr int kAcquire = __ATOMIC_ACQUIRE;
inline constexpr int kRelease = __ATOMIC_RELEASE;
inline constexpr int kAcqRel = __ATOMIC_ACQ_REL;
inline constexpr int kSeqCst = __ATOMIC_SEQ_CST;
/// What is used of std::atomic_ref, which GCC's library keeps from reading what is const.
template <class Scope, class T>
class Ref {
 public:
  explicit Ref(T& object) : at_(&object) {}
  [[nodiscard]] T load(int order) const { return __atomic_load_n(at_, order); }
  void store(T value, int order) const { __atomic_store_n(at_, value, order); }
  T exchange(T value, int order) const { return __atomic_exchange_n(at_, value, order); }
  bool compare_exchange_strong(T& expected, T value, int success, int failure) const {
    return __atomic_compare_exchange_n(at_, &expected, value, /*weak=*/false, success, failure);
  }
  T fetch_add(T value, int order) const { return __atomic_fetch_add(at_, value, order); }
  T fetch_or(T value, int order) const { return __atomic_fetch_or(at_, value, order); }
  T fetch_and(T value, int order) const { return __atomic_fetch_and(at_, value, order); }

 private:
  T* at_;
};
template <class Scope>
void fence(int order) {
  __atomic_thread_fence(order);
}
#endif

}  // namespace atomics

/// Two words that are exchanged as one.
struct alignas(16) WordPair {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  BRECCIA_HD friend bool operator==(const WordPair& a, const WordPair& b) {
    return a.first == b.first && a.second == b.second;
  }
};

/// No pair's first word: what stands there while a device without an exchange of 16 bytes (compute
/// capability below 9.0) makes one out of two of 8.
inline constexpr std::uint64_t kBusyWord = ~std::uint64_t{0};

#define BRECCIA_ATOMIC_LOAD(order, constant, scope, Scope)                        \
  BRECCIA_SINGLE_SOURCE                                                           \
  template <class Group, class T>                                                 \
  BRECCIA_HD T load_##order##_##scope(const Group& group, const T* from) {        \
    atomics::may_switch(group);                                                   \
    return atomics::Ref<atomics::Scope, T>(*const_cast<T*>(from)).load(constant); \
  }

#define BRECCIA_ATOMIC_STORE(order, constant, scope, Scope)                \
  BRECCIA_SINGLE_SOURCE                                                    \
  template <class Group, class T>                                          \
  BRECCIA_HD void store_##order##_##scope(const Group& group, T* to,       \
                                          std::type_identity_t<T> value) { \
    atomics::may_switch(group);                                            \
    atomics::Ref<atomics::Scope, T>(*to).store(value, constant);           \
  }

#define BRECCIA_ATOMIC_CHANGE(name, call, constant, scope, Scope)                         \
  BRECCIA_SINGLE_SOURCE                                                                   \
  template <class Group, class T>                                                         \
  BRECCIA_HD T name##_##scope(const Group& group, T* at, std::type_identity_t<T> value) { \
    atomics::may_switch(group);                                                           \
    return atomics::Ref<atomics::Scope, T>(*at).call(value, constant);                    \
  }

#define BRECCIA_ATOMIC_FENCE(order, constant, scope, Scope)     \
  BRECCIA_SINGLE_SOURCE                                         \
  template <class Group>                                        \
  BRECCIA_HD void fence_##order##_##scope(const Group& group) { \
    atomics::may_switch(group);                                 \
    atomics::fence<atomics::Scope>(constant);                   \
  }

#define BRECCIA_ATOMICS(scope, Scope)                                                            \
  BRECCIA_ATOMIC_LOAD(relaxed, atomics::kRelaxed, scope, Scope)                                  \
  BRECCIA_ATOMIC_LOAD(acquire, atomics::kAcquire, scope, Scope)                                  \
  BRECCIA_ATOMIC_STORE(relaxed, atomics::kRelaxed, scope, Scope)                                 \
  BRECCIA_ATOMIC_STORE(release, atomics::kRelease, scope, Scope)                                 \
  BRECCIA_ATOMIC_CHANGE(exchange_acq_rel, exchange, atomics::kAcqRel, scope, Scope)              \
  BRECCIA_ATOMIC_CHANGE(add_relaxed, fetch_add, atomics::kRelaxed, scope, Scope)                 \
  BRECCIA_ATOMIC_CHANGE(add_acq_rel, fetch_add, atomics::kAcqRel, scope, Scope)                  \
  BRECCIA_ATOMIC_CHANGE(or_relaxed, fetch_or, atomics::kRelaxed, scope, Scope)                   \
  BRECCIA_ATOMIC_CHANGE(or_acquire, fetch_or, atomics::kAcquire, scope, Scope)                   \
  BRECCIA_ATOMIC_CHANGE(or_acq_rel, fetch_or, atomics::kAcqRel, scope, Scope)                    \
  BRECCIA_ATOMIC_CHANGE(and_acq_rel, fetch_and, atomics::kAcqRel, scope, Scope)                  \
  BRECCIA_SINGLE_SOURCE                                                                          \
  template <class Group, class T>                                                                \
  BRECCIA_HD T compare_exchange_acq_rel_##scope(const Group& group, T* at,                       \
                                                std::type_identity_t<T> expected,                \
                                                std::type_identity_t<T> value) {                 \
    atomics::may_switch(group);                                                                  \
    T found = expected;                                                                          \
    atomics::Ref<atomics::Scope, T>(*at).compare_exchange_strong(found, value, atomics::kAcqRel, \
                                                                 atomics::kAcquire);             \
    return found;                                                                                \
  }                                                                                              \
  BRECCIA_ATOMIC_FENCE(acquire, atomics::kAcquire, scope, Scope)                                 \
  BRECCIA_ATOMIC_FENCE(release, atomics::kRelease, scope, Scope)                                 \
  BRECCIA_ATOMIC_FENCE(seq_cst, atomics::kSeqCst, scope, Scope)

BRECCIA_ATOMICS(device, DeviceScope)
BRECCIA_ATOMICS(system, SystemScope)

#undef BRECCIA_ATOMICS
#undef BRECCIA_ATOMIC_FENCE
#undef BRECCIA_ATOMIC_CHANGE
#undef BRECCIA_ATOMIC_STORE
#undef BRECCIA_ATOMIC_LOAD

namespace atomics {

#if defined(__CUDACC__)
/// The exchange of 16 bytes, made of two of 8: kBusyWord keeps the others off meanwhile.
__device__ inline WordPair compare_exchange_in_steps(WordPair* at, const WordPair& expected,
                                                     const WordPair& value) {
  const Ref<DeviceScope, std::uint64_t> first(at->first);
  const Ref<DeviceScope, std::uint64_t> second(at->second);
  std::uint64_t found = expected.first;
  while (!first.compare_exchange_strong(found, kBusyWord, kAcqRel, kAcquire)) {
    if (found != kBusyWord) return {found, second.load(kRelaxed)};
    found = expected.first;
  }
  const std::uint64_t beside = second.load(kRelaxed);
  const bool is_equal = beside == expected.second;
  if (is_equal) second.store(value.second, kRelaxed);
  first.store(is_equal ? value.first : expected.first, kRelease);
  return {expected.first, beside};
}
#endif

/// Source  PTX ISA 8.4: atom.cas.b128, from compute capability 9.0 on.
BRECCIA_HD inline WordPair compare_exchange_pair(WordPair* at, const WordPair& expected,
                                                 const WordPair& value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  WordPair found;
  asm volatile(
      "{ .reg .b128 was, want, will; mov.b128 want, {%3, %4}; mov.b128 will, {%5, %6};\n"
      "  atom.relaxed.gpu.cas.b128 was, [%2], want, will; mov.b128 {%0, %1}, was; }"
      : "=l"(found.first), "=l"(found.second)
      : "l"(at), "l"(expected.first), "l"(expected.second), "l"(value.first), "l"(value.second)
      : "memory");
  return found;
#elif defined(__CUDA_ARCH__)
  return compare_exchange_in_steps(at, expected, value);
#else
  using Both = unsigned __int128;
  const auto joined = [](const WordPair& pair) { return Both{pair.second} << 64 | pair.first; };
  const Both found =
      __sync_val_compare_and_swap(reinterpret_cast<Both*>(at), joined(expected), joined(value));
  return {static_cast<std::uint64_t>(found), static_cast<std::uint64_t>(found >> 64)};
#endif
}

}  // namespace atomics

/// Both words of a pair; `second` is that of `first` or a later one, never an older.
/// Source  PTX ISA 8.3, ld: a .b128 is one access. Elsewhere two, in this order.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD WordPair load_pair_device(const Group& group, const WordPair* from) {
  WordPair pair;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  atomics::may_switch(group);
  asm volatile("{ .reg .b128 both; ld.relaxed.gpu.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(from)
               : "memory");
#else
  do {
    pair.first = load_acquire_device(group, &from->first);
  } while (pair.first == kBusyWord);
  pair.second = load_relaxed_device(group, &from->second);
#endif
  return pair;
}

/// A word of which an old value does, too: where many ask for one word, and others seldom store it,
/// it comes out of the cache of the multiprocessor.
/// Source  PTX ISA, ld.relaxed.cta: coherent among threads of a block, which share that cache.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD std::uint64_t load_hint(const Group& group, const std::uint64_t* from) {
#if defined(__CUDA_ARCH__)
  atomics::may_switch(group);
  std::uint64_t word;
  asm volatile("ld.relaxed.cta.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
#else
  return load_relaxed_device(group, from);
#endif
}

/// Stores both words where only the caller changes them, and nobody expects what they are: an
/// exchange that fails there may do so at any moment of it.
/// Source  PTX ISA 8.3, st: a .b128 is one access. Elsewhere two, so that who sees the first one
///         sees the second.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void store_pair_device(const Group& group, WordPair* to, const WordPair& value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  atomics::may_switch(group);
  asm volatile("{ .reg .b128 both; mov.b128 both, {%1, %2}; st.relaxed.gpu.b128 [%0], both; }"
               :
               : "l"(to), "l"(value.first), "l"(value.second)
               : "memory");
#else
  store_relaxed_device(group, &to->second, value.second);
  store_release_device(group, &to->first, value.first);
#endif
}

/// Stores `value` where `expected` is; returns what was there.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD WordPair compare_exchange_pair_device(const Group& group, WordPair* at,
                                                 const WordPair& expected, const WordPair& value) {
  atomics::may_switch(group);
  return atomics::compare_exchange_pair(at, expected, value);
}

/// Behind load_pair_device(group, from), before the caller follows the number or address that it
/// gave.
/// Order   what was written before that pair was stored is there now: on the host by this load; on
///         a device for load_named_pair_device(), whose address depends on the pair.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void acquire_pair_device(const Group& group, const WordPair* from) {
#if !defined(__CUDA_ARCH__)
  (void)load_acquire_device(group, &from->first);
#endif
}

/// Two words that a pair names, and that nobody writes while it does.
/// Order   not out of a multiprocessor's own cache, as a plain load's may be: it keeps what it has
///         of neighbours while others write, and a kernel may have read there before.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD WordPair load_named_pair_device(const Group& group, const WordPair* from) {
  atomics::may_switch(group);
#if defined(__CUDA_ARCH__)
  WordPair pair;
  asm volatile("ld.relaxed.gpu.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(from)
               : "memory");
  return pair;
#else
  return *from;
#endif
}

/// Two words that lie at a multiple of 16 bytes: each of them at some moment.
/// Source  PTX memory model: an access to a vector is one to each of its elements.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD WordPair load_two_relaxed_device(const Group& group, const std::uint64_t* from) {
  atomics::may_switch(group);
  WordPair two;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.relaxed.gpu.v2.u64 {%0, %1}, [%2];"
               : "=l"(two.first), "=l"(two.second)
               : "l"(from)
               : "memory");
#else
  two.first = __atomic_load_n(from, __ATOMIC_RELAXED);
  two.second = __atomic_load_n(from + 1, __ATOMIC_RELAXED);
#endif
  return two;
}

}  // namespace breccia::exec
