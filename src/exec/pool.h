#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/result.h"

namespace breccia::exec {

class Pool;

/// What several pools may keep for reuse, all of them together. Where one keeps more, the blocks
/// that were freed first go back to the system, whosever they are: what an idle pool keeps is there
/// for the others.
/// Bound   as many bytes as are in use, but at least `floor` and at most `ceiling`.
/// Threads any.
class KeptAllowance {
 public:
  /// Shape   floor <= ceiling
  KeptAllowance(std::uint64_t floor, std::uint64_t ceiling);
  KeptAllowance(const KeptAllowance&) = delete;
  KeptAllowance& operator=(const KeptAllowance&) = delete;

  [[nodiscard]] std::uint64_t floor() const { return floor_; }
  [[nodiscard]] std::uint64_t bound() const;
  /// Bytes that its pools keep.
  [[nodiscard]] std::uint64_t kept() const { return kept_.load(std::memory_order_relaxed); }

 private:
  friend class Pool;

  void join(Pool* pool);
  void leave(Pool* pool);
  void give_back_excess();
  void trim_all();

  const std::uint64_t floor_;
  const std::uint64_t ceiling_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> kept_{0};
  std::atomic<std::uint64_t> releases_{0};
  std::mutex mutex_;  // taken before a pool's
  std::vector<Pool*> pools_;
};

/// The allowance of this process for host memory, pinned or not: an eighth of what the process may
/// use, within 1 to 16 GiB, and more where more is in use, but never more than a quarter. To give
/// blocks back to the system and to take new ones costs page faults, and milliseconds a block where
/// memory is pinned.
[[nodiscard]] KeptAllowance& host_allowance();

/// Memory of one backend with a byte budget. Freed blocks are kept by size class and reused at
/// once, so whoever frees a block must have waited for all work on it.
/// Bound   what is kept: by its allowance if it has one, else by the budget.
/// Order   who must wait, because what others have asked for may leave no room, is served in order
///         of arrival: nobody overtakes.
/// Threads any.
class Pool {
 public:
  /// No block has less than `block_min` bytes. `allowance` may be null, and outlives the pool: for
  /// memory that nobody else wants.
  Pool(std::uint64_t bytes_max, KeptAllowance* allowance, std::size_t block_min);
  explicit Pool(std::uint64_t bytes_max) : Pool(bytes_max, nullptr, 1) {}
  virtual ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Errors  nullptr: the budget or the memory is exhausted. Alignment is 256.
  [[nodiscard]] void* allocate(std::size_t bytes);
  void release(void* memory, std::size_t bytes);

  /// Gives every kept block back to the system.
  void trim();

  /// Bytes handed out and not yet released.
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  /// Bytes kept for reuse.
  [[nodiscard]] std::uint64_t kept() const;
  [[nodiscard]] std::uint64_t bytes_max() const { return bytes_max_; }

 protected:
  /// Threads any, of different blocks.
  virtual void* raw_allocate(std::size_t bytes) = 0;
  virtual void raw_release(void* memory, std::size_t bytes) = 0;
  /// As trim(), for good; subclasses call it in their destructor.
  void drop_kept();

 private:
  friend class KeptAllowance;

  struct Block {
    void* memory;
    std::size_t size;
  };
  struct Kept {
    void* memory;
    std::uint64_t release;  // which one it was
  };

  static std::size_t size_class(std::size_t bytes);
  void wait_for_turn(std::size_t size, std::unique_lock<std::mutex>* lock);
  void end_turn();
  [[nodiscard]] bool has_room(std::size_t size) const;
  void* ask_system(std::size_t size);
  void* try_raw_allocate(std::size_t size);
  void* pop_kept(std::size_t size);
  [[nodiscard]] bool keep(Block block);
  void note_kept(std::size_t size);
  void note_not_kept(std::size_t size);
  void note_used(std::size_t size);
  void note_unused(std::size_t size);
  [[nodiscard]] std::deque<Kept>* oldest(std::size_t* size);
  [[nodiscard]] std::uint64_t oldest_release();
  void give_back_oldest();
  void drop_all();
  [[nodiscard]] bool books_balance() const;

  const std::uint64_t bytes_max_;
  KeptAllowance* allowance_;
  const std::size_t block_min_;
  std::atomic<std::uint64_t> used_{0};
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::uint64_t turns_given_ = 0;
  std::uint64_t turns_over_ = 0;
  std::uint64_t asking_ = 0;  // calls that ask the system without the lock
  std::uint64_t held_ = 0;    // bytes from raw_allocate, or asked for: used and kept
  std::uint64_t releases_ = 0;
  std::map<std::size_t, std::deque<Kept>> kept_;  // by size, oldest first
};

/// An array of plain data in a pool. Move-only; gives its memory back at its end.
template <class T>
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Array() {
    if (data_ != nullptr) pool_->release(data_, bytes());
  }

  /// Errors  MemoryLimit: the pool is exhausted.
  static Result<Array> make(Pool& pool, std::uint64_t count) {
    Array array;
    array.pool_ = &pool;
    array.count_ = count;
    if (count > 0) {
      array.data_ = static_cast<T*>(pool.allocate(count * sizeof(T)));
      if (array.data_ == nullptr) return Status::MemoryLimit("backend memory is exhausted");
    }
    return Result<Array>(std::move(array));
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t bytes() const { return count_ * sizeof(T); }

 private:
  void swap(Array& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }
  Pool* pool_ = nullptr;
  T* data_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace breccia::exec
