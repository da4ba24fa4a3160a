#include "exec/pool.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/machine.h"
#include "base/memory.h"

namespace breccia::exec {

// ---- what pools keep together ------------------------------------------------------------------

KeptAllowance& host_allowance() {
  // Never destroyed: nor is the pool of batches without a store.
  static auto* const allowance = [] {
    constexpr std::uint64_t kGiB = 1 << 30;
    const std::uint64_t quarter = base::usable_memory_bytes() / 4;
    const std::uint64_t floor = std::min(quarter, std::clamp(quarter / 2, kGiB, 16 * kGiB));
    return new KeptAllowance(floor, quarter);
  }();
  return *allowance;
}

KeptAllowance::KeptAllowance(std::uint64_t floor, std::uint64_t ceiling)
    : floor_(floor), ceiling_(ceiling) {
  BRECCIA_ASSERT(floor <= ceiling);
}

std::uint64_t KeptAllowance::bound() const {
  return std::clamp(used_.load(std::memory_order_relaxed), floor_, ceiling_);
}

void KeptAllowance::join(Pool* pool) {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(std::find(pools_.begin(), pools_.end(), pool) == pools_.end());
  pools_.push_back(pool);
}

void KeptAllowance::leave(Pool* pool) {
  const std::lock_guard lock(mutex_);
  std::erase(pools_, pool);
}

/// Few pools exist, so all are asked. Under the lock, as a pool must not end meanwhile.
void KeptAllowance::give_back_excess() {
  while (kept() > bound()) {
    const std::lock_guard lock(mutex_);
    Pool* first = nullptr;
    std::uint64_t first_release = ~std::uint64_t{0};
    for (Pool* const pool : pools_) {
      const std::uint64_t release = pool->oldest_release();
      if (release >= first_release) continue;
      first = pool;
      first_release = release;
    }
    if (first == nullptr) return;  // somebody has taken it meanwhile
    first->give_back_oldest();
  }
}

void KeptAllowance::trim_all() {
  const std::lock_guard lock(mutex_);
  for (Pool* const pool : pools_) pool->trim();
}

// ---- a pool ------------------------------------------------------------------------------------

Pool::Pool(std::uint64_t bytes_max, KeptAllowance* allowance, std::size_t block_min)
    : bytes_max_(bytes_max), allowance_(allowance), block_min_(block_min) {
  if (allowance_ != nullptr) allowance_->join(this);
}

Pool::~Pool() { BRECCIA_ASSERT(kept_.empty() && held_ == 0); }

// Eighths of a power of two: at most 12.5 % of a block is lost, and few classes exist.
std::size_t Pool::size_class(std::size_t bytes) {
  if (bytes <= 512) return 512;
  const std::size_t step = std::bit_ceil(bytes) / 16;
  return (bytes + step - 1) / step * step;
}

bool Pool::has_room(std::size_t size) const { return held_ + size <= bytes_max_; }

/// Waits until all that came before have been served, and there is room, or it is known what those
/// get that ask the system: what they may not get must not let this call fail. Until end_turn()
/// nobody asks anew, so the wait is over when those are done.
void Pool::wait_for_turn(std::size_t size, std::unique_lock<std::mutex>* lock) {
  const std::uint64_t turn = turns_given_++;
  answered_.wait(*lock, [&] { return turns_over_ == turn && (asking_ == 0 || has_room(size)); });
}

/// True if what is handed out and what is kept add up to what is held, within the budget. Less the
/// blocks that somebody in ask_system() has taken from what is kept and not counted yet.
bool Pool::books_balance() const {
  std::uint64_t counted = used_;
  for (const auto& [size, blocks] : kept_) counted += size * blocks.size();
  const bool agrees = asking_ == 0 ? counted == held_ : counted <= held_;
  return agrees && held_ <= bytes_max_ && turns_over_ <= turns_given_;
}

void Pool::end_turn() {
  BRECCIA_ASSERT(turns_over_ < turns_given_);
  ++turns_over_;
  answered_.notify_all();
}

void* Pool::allocate(std::size_t bytes) {
  const std::size_t size = size_class(std::max(bytes, block_min_));
  {
    std::unique_lock lock(mutex_);
    const bool others_wait = turns_over_ != turns_given_;
    void* kept = others_wait ? nullptr : pop_kept(size);
    if (kept == nullptr && (others_wait || !has_room(size))) {
      wait_for_turn(size, &lock);
      kept = pop_kept(size);
      if (kept == nullptr && !has_room(size)) drop_all();
      end_turn();
    }
    if (kept == nullptr && !has_room(size)) return nullptr;
    note_used(size);
    if (kept == nullptr) {
      held_ += size;
      ++asking_;
    }
    BRECCIA_INVARIANT(books_balance());
    if (kept != nullptr) return kept;
  }
  return ask_system(size);
}

void* Pool::try_raw_allocate(std::size_t size) {
  void* memory = nullptr;
  base::as_memory_allows([&] { memory = raw_allocate(size); });
  return memory;
}

/// Takes a block that is counted already, without the lock: the system may take milliseconds, and
/// others find theirs among what is kept. If it has none, what is kept goes back.
void* Pool::ask_system(std::size_t size) {
  void* memory = try_raw_allocate(size);
  bool was_kept = false;
  if (memory == nullptr) {
    {
      const std::lock_guard lock(mutex_);
      memory = pop_kept(size);
      was_kept = memory != nullptr;
      if (!was_kept) drop_all();
    }
    if (!was_kept && allowance_ != nullptr) allowance_->trim_all();
    if (!was_kept) memory = try_raw_allocate(size);
  }
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(asking_ > 0);
  --asking_;
  answered_.notify_all();
  if (memory == nullptr || was_kept) {
    BRECCIA_ASSERT(held_ >= size);
    held_ -= size;
    if (memory == nullptr) note_unused(size);
  }
  BRECCIA_INVARIANT(books_balance());
  return memory;
}

void Pool::trim() {
  const std::lock_guard lock(mutex_);
  drop_all();
}

void Pool::release(void* memory, std::size_t bytes) {
  const std::size_t size = size_class(std::max(bytes, block_min_));
  bool is_kept = false;
  {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(memory != nullptr);
    note_unused(size);
    is_kept = keep({memory, size});
    BRECCIA_INVARIANT(books_balance());
  }
  // Without the lock: to give a block back may take milliseconds.
  if (!is_kept) raw_release(memory, size);
  if (allowance_ != nullptr) allowance_->give_back_excess();
}

std::uint64_t Pool::kept() const {
  const std::lock_guard lock(mutex_);
  return held_ - used_;
}

void Pool::note_kept(std::size_t size) {
  if (allowance_ != nullptr) allowance_->kept_.fetch_add(size, std::memory_order_relaxed);
}
void Pool::note_not_kept(std::size_t size) {
  if (allowance_ == nullptr) return;
  const std::uint64_t before = allowance_->kept_.fetch_sub(size, std::memory_order_relaxed);
  BRECCIA_ASSERT(before >= size);
}
void Pool::note_used(std::size_t size) {
  used_ += size;
  if (allowance_ != nullptr) allowance_->used_.fetch_add(size, std::memory_order_relaxed);
}
void Pool::note_unused(std::size_t size) {
  BRECCIA_ASSERT(used_ >= size);
  used_ -= size;
  if (allowance_ != nullptr) allowance_->used_.fetch_sub(size, std::memory_order_relaxed);
}

/// The block of that size that was released last, since its bytes may still be in a cache; or null.
void* Pool::pop_kept(std::size_t size) {
  const auto kept = kept_.find(size);
  if (kept == kept_.end() || kept->second.empty()) return nullptr;
  void* const memory = kept->second.back().memory;
  kept->second.pop_back();
  note_not_kept(size);
  return memory;
}

/// Keeps a block that is not in use any more. False: it goes back to the system, as it would drive
/// all others out, or as there is no memory to note it.
bool Pool::keep(Block block) {
  bool is_kept = false;
  if (allowance_ == nullptr || block.size <= allowance_->bound()) {
    base::as_memory_allows([&] {
      const std::uint64_t release = allowance_ == nullptr ? 0 : ++allowance_->releases_;
      kept_[block.size].push_back({block.memory, release});
      is_kept = true;
    });
  }
  if (is_kept) {
    note_kept(block.size);
  } else {
    held_ -= block.size;
  }
  return is_kept;
}

/// The blocks of the size among which the one is that was released first; null: none is kept. Few
/// size classes exist, so all are asked.
std::deque<Pool::Kept>* Pool::oldest(std::size_t* size) {
  std::deque<Kept>* oldest = nullptr;
  for (auto& [of_size, blocks] : kept_) {
    if (blocks.empty()) continue;
    if (oldest != nullptr && oldest->front().release < blocks.front().release) continue;
    oldest = &blocks;
    *size = of_size;
  }
  return oldest;
}

/// When the block was released that goes first; the largest number if none is kept.
std::uint64_t Pool::oldest_release() {
  const std::lock_guard lock(mutex_);
  std::size_t size = 0;
  const std::deque<Kept>* const blocks = oldest(&size);
  return blocks == nullptr ? ~std::uint64_t{0} : blocks->front().release;
}

void Pool::give_back_oldest() {
  void* memory = nullptr;
  std::size_t size = 0;
  {
    const std::lock_guard lock(mutex_);
    std::deque<Kept>* const blocks = oldest(&size);
    if (blocks == nullptr) return;
    memory = blocks->front().memory;
    blocks->pop_front();
    held_ -= size;
    note_not_kept(size);
    BRECCIA_INVARIANT(books_balance());
  }
  raw_release(memory, size);
}

void Pool::drop_kept() {
  if (allowance_ != nullptr) allowance_->leave(this);
  const std::lock_guard lock(mutex_);
  drop_all();
}

void Pool::drop_all() {
  for (auto& [size, blocks] : kept_) {
    for (const Kept& block : blocks) {
      raw_release(block.memory, size);
      held_ -= size;
      note_not_kept(size);
    }
  }
  kept_.clear();
  BRECCIA_INVARIANT(books_balance());
}

}  // namespace breccia::exec
