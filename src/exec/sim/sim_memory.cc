#include "exec/sim/sim_memory.h"

#include <cstdlib>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"

namespace breccia::exec::sim {

namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

void fill_with_garbage(void* memory, std::size_t bytes) { std::memset(memory, 0xa5, bytes); }

bool SimPool::owns(const void* memory) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < begin + bytes;
}

void* SimPool::raw_allocate(std::size_t bytes) {
  const std::size_t size = base::round_up(bytes, kAlignment);
  void* const memory = std::aligned_alloc(kAlignment, size);
  if (memory == nullptr) return nullptr;
  fill_with_garbage(memory, size);
  const std::lock_guard lock(mutex_);
  blocks_.emplace(reinterpret_cast<std::uintptr_t>(memory), size);
  return memory;
}

void SimPool::raw_release(void* memory, std::size_t) {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(blocks_.erase(reinterpret_cast<std::uintptr_t>(memory)) == 1);
  std::free(memory);
}

}  // namespace breccia::exec::sim
