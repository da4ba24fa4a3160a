#include "memory/allocation_faults.h"

#include <dlfcn.h>
#include <link.h>
#include <rocksdb/db.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace breccia::testing {

namespace {

/// Where the code of librocksdb lies; nowhere, if the program holds it itself.
struct CodeRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

int find_rocksdb(dl_phdr_info* library, std::size_t, void* found) {
  if (std::strstr(library->dlpi_name, "librocksdb") == nullptr) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = library->dlpi_addr + part.p_vaddr;
    *static_cast<CodeRange*>(found) = {begin, begin + part.p_memsz};
  }
  return 1;
}

const CodeRange& rocksdb_code() {
  static const CodeRange range = [] {
    CodeRange found;
    dl_iterate_phdr(find_rocksdb, &found);
    return found;
  }();
  return range;
}

bool is_rocksdb(std::uintptr_t code) {
  return rocksdb_code().begin <= code && code < rocksdb_code().end;
}

_Unwind_Reason_Code look_at_frame(_Unwind_Context* frame, void* found) {
  if (!is_rocksdb(_Unwind_GetIP(frame))) return _URC_NO_REASON;
  *static_cast<bool*>(found) = true;
  return _URC_END_OF_STACK;
}

bool is_below_rocksdb() {
  bool found = false;
  _Unwind_Backtrace(look_at_frame, &found);
  return found;
}

std::atomic<bool> armed{false};
std::atomic<std::uint64_t> first_to_fail{0};
std::atomic<std::uint64_t> failures_left{0};
std::atomic<std::uint64_t> counted{0};
std::atomic<std::uint64_t> failed{0};
thread_local int spared = 0;

bool must_fail() {
  if (!armed.load(std::memory_order_relaxed) || spared > 0 || is_below_rocksdb()) return false;
  const std::uint64_t number = counted.fetch_add(1) + 1;
  const std::uint64_t first = first_to_fail.load();
  if (first == 0 || number < first) return false;
  std::uint64_t left = failures_left.load();
  while (left > 0) {
    if (!failures_left.compare_exchange_weak(left, left - 1)) continue;
    failed.fetch_add(1);
    return true;
  }
  return false;
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (must_fail()) return nullptr;
  bytes = std::max<std::size_t>(bytes, 1);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

bool can_tell_rocksdb() { return rocksdb_code().end != 0; }

void arm_allocations(std::uint64_t first, std::uint64_t count) {
  (void)rocksdb_code();
  counted = 0;
  failed = 0;
  first_to_fail = first;
  failures_left = count;
  armed = true;
}

std::uint64_t disarm_allocations() {
  armed = false;
  return counted;
}

std::uint64_t failed_allocations() { return failed; }

SparedThread::SparedThread() { ++spared; }
SparedThread::~SparedThread() { --spared; }
ExposedCall::ExposedCall() { --spared; }
ExposedCall::~ExposedCall() { ++spared; }

}  // namespace breccia::testing

// ---- all forms of operator new and delete
// --------------------------------------------------------

namespace {

using breccia::testing::take;
using breccia::testing::take_or_throw;
constexpr std::size_t kPlain = alignof(std::max_align_t);

std::size_t bytes_of(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

void* operator new(std::size_t bytes) { return take_or_throw(bytes, kPlain); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, kPlain); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, bytes_of(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, bytes_of(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes, kPlain);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes, kPlain);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take(bytes, bytes_of(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return take(bytes, bytes_of(alignment));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
