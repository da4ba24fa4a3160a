#include "exec/pool.h"

#include <algorithm>
#include <bit>

#include "base/machine.h"

namespace breccia::exec {

std::uint64_t host_bytes_kept() {
  constexpr std::uint64_t kGiB = 1 << 30;
  return std::clamp(base::machine_memory_bytes() / 8, kGiB, 16 * kGiB);
}

Pool::~Pool() { BRECCIA_ASSERT(kept_.empty() && held_ == 0); }

// Eighths of a power of two: at most 12.5 % of a block is lost, and few classes exist.
std::size_t Pool::size_class(std::size_t bytes) {
  if (bytes <= 512) return 512;
  const std::size_t step = std::bit_ceil(bytes) / 16;
  return (bytes + step - 1) / step * step;
}

void* Pool::allocate(std::size_t bytes) {
  const std::size_t size = size_class(std::max(bytes, block_min_));
  {
    std::unique_lock lock(mutex_);
    void* kept = pop_kept(size);
    if (kept == nullptr && held_ + size > bytes_max_) {
      // What others have asked for and may not get must not let this call fail.
      answered_.wait(lock, [this] { return asking_ == 0; });
      kept = pop_kept(size);
      if (kept == nullptr && held_ + size > bytes_max_) drop_kept();
    }
    if (kept == nullptr && held_ + size > bytes_max_) return nullptr;
    used_ += size;
    if (kept != nullptr) return kept;
    held_ += size;
    ++asking_;
  }
  return ask_system(size);
}

/// Takes a block that is counted already, without the lock: the system may take milliseconds, and
/// others find theirs among what is kept. If it has none, what is kept goes back.
void* Pool::ask_system(std::size_t size) {
  void* memory = raw_allocate(size);
  bool was_kept = false;
  if (memory == nullptr) {
    {
      const std::lock_guard lock(mutex_);
      memory = pop_kept(size);
      was_kept = memory != nullptr;
      if (!was_kept) drop_kept();
    }
    if (!was_kept) memory = raw_allocate(size);
  }
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(asking_ > 0);
  --asking_;
  answered_.notify_all();
  if (memory != nullptr && !was_kept) return memory;
  BRECCIA_ASSERT(held_ >= size && used_ >= size);
  held_ -= size;
  if (memory == nullptr) used_ -= size;
  return memory;
}

void Pool::trim() {
  const std::lock_guard lock(mutex_);
  drop_kept();
}

void Pool::release(void* memory, std::size_t bytes) {
  const std::size_t size = size_class(std::max(bytes, block_min_));
  std::vector<Block> excess;
  {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(used_ >= size);
    used_ -= size;
    excess = keep({memory, size});
  }
  // Without the lock: to give a block back may take milliseconds.
  for (const Block& block : excess) raw_release(block.memory, block.size);
}

std::uint64_t Pool::kept() const {
  const std::lock_guard lock(mutex_);
  return held_ - used_;
}

/// The block of that size that was released last, since its bytes may still be in a cache; or null.
void* Pool::pop_kept(std::size_t size) {
  const auto kept = kept_.find(size);
  if (kept == kept_.end() || kept->second.empty()) return nullptr;
  void* const memory = kept->second.back().memory;
  kept->second.pop_back();
  return memory;
}

/// Keeps a block that is not in use any more; returns those that must go back to the system for it.
std::vector<Pool::Block> Pool::keep(Block block) {
  const std::uint64_t bound = std::max<std::uint64_t>(kept_floor_, used_);
  std::vector<Block> excess;
  if (block.size <= bound) {
    kept_[block.size].push_back({block.memory, ++releases_});
  } else {  // It would only drive the others out.
    excess.push_back(block);
    held_ -= block.size;
  }
  while (held_ - used_ > bound) {
    excess.push_back(take_oldest());
    held_ -= excess.back().size;
  }
  return excess;
}

/// Takes out the kept block that was released first. Few size classes exist, so all are asked.
Pool::Block Pool::take_oldest() {
  std::deque<Kept>* oldest = nullptr;
  std::size_t oldest_size = 0;
  for (auto& [size, blocks] : kept_) {
    if (blocks.empty()) continue;
    if (oldest != nullptr && oldest->front().release < blocks.front().release) continue;
    oldest = &blocks;
    oldest_size = size;
  }
  BRECCIA_ASSERT(oldest != nullptr);
  const Block block{oldest->front().memory, oldest_size};
  oldest->pop_front();
  return block;
}

void Pool::drop_kept() {
  for (auto& [size, blocks] : kept_) {
    for (const Kept& block : blocks) {
      raw_release(block.memory, size);
      held_ -= size;
    }
  }
  kept_.clear();
}

}  // namespace breccia::exec
