#pragma once

#include <cstdint>

/// Lets allocations of this program fail, in every form of operator new, on every thread.
///
/// RocksDB is not written to live through std::bad_alloc, and what becomes of it is not ours to
/// test: an allocation with a function of librocksdb anywhere on its stack neither counts nor
/// fails, so its threads are spared, and our callbacks that it calls. What our code allocates
/// itself does, on the caller's thread, on the store's own and on those of TBB.

namespace breccia::testing {

/// False where RocksDB is linked into the program, so that its functions cannot be told from ours.
[[nodiscard]] bool can_tell_rocksdb();

/// From now on allocations are counted; the `first`-th fails (none, if that is 0), and those behind
/// it until `count` have failed.
void arm_allocations(std::uint64_t first, std::uint64_t count);
/// None fails any more. How many were counted.
std::uint64_t disarm_allocations();
/// How many have failed since they were armed.
[[nodiscard]] std::uint64_t failed_allocations();

/// While it lives, the allocations of its thread neither count nor fail: they are the test's own.
class SparedThread {
 public:
  SparedThread();
  ~SparedThread();
  SparedThread(const SparedThread&) = delete;
  SparedThread& operator=(const SparedThread&) = delete;
};

/// The contrary, within it: a call of what is tested.
class ExposedCall {
 public:
  ExposedCall();
  ~ExposedCall();
  ExposedCall(const ExposedCall&) = delete;
  ExposedCall& operator=(const ExposedCall&) = delete;
};

}  // namespace breccia::testing
