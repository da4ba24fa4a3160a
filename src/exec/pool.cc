#include "exec/pool.h"

#include <bit>

namespace breccia::exec {

Pool::~Pool() { BRECCIA_ASSERT(kept_.empty() && held_ == 0); }

// Eighths of a power of two: at most 12.5 % of a block is lost, and few classes exist.
std::size_t Pool::size_class(std::size_t bytes) {
  if (bytes <= 512) return 512;
  const std::size_t step = std::bit_ceil(bytes) / 16;
  return (bytes + step - 1) / step * step;
}

void* Pool::allocate(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  if (const auto kept = kept_.find(size); kept != kept_.end()) {
    void* const memory = kept->second.back();
    kept->second.pop_back();
    if (kept->second.empty()) kept_.erase(kept);
    used_ += size;
    return memory;
  }
  if (held_ + size > bytes_max_) drop_kept();
  if (held_ + size > bytes_max_) return nullptr;
  void* memory = raw_allocate(size);
  if (memory == nullptr) {
    drop_kept();
    memory = raw_allocate(size);
  }
  if (memory == nullptr) return nullptr;
  held_ += size;
  used_ += size;
  return memory;
}

void Pool::release(void* memory, std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(used_ >= size);
  used_ -= size;
  kept_[size].push_back(memory);
}

void Pool::drop_kept() {
  for (auto& [size, blocks] : kept_) {
    for (void* block : blocks) {
      raw_release(block, size);
      held_ -= size;
    }
  }
  kept_.clear();
}

}  // namespace breccia::exec
