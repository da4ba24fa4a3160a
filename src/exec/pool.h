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

/// What each pool of host memory may always keep for reuse, an eighth of the machine's memory
/// within 1 to 16 GiB: giving blocks back to the system and taking new ones costs page faults, and
/// milliseconds a block where memory is pinned.
[[nodiscard]] std::uint64_t host_bytes_kept();

/// Memory of one backend with a byte budget. Freed blocks are kept by size class and reused at
/// once, so whoever frees a block must have waited for all work on it.
/// Bound   keeps as many bytes as are in use, or `kept_floor` if that is more; of what goes beyond,
///         the blocks that were freed first go back to the system.
/// Threads any.
class Pool {
 public:
  /// No block has less than `block_min` bytes.
  Pool(std::uint64_t bytes_max, std::uint64_t kept_floor, std::size_t block_min = 1)
      : bytes_max_(bytes_max), kept_floor_(kept_floor), block_min_(block_min) {}
  /// For memory that nobody else wants: the budget alone bounds what is kept.
  explicit Pool(std::uint64_t bytes_max) : Pool(bytes_max, bytes_max) {}
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
  /// As trim(); subclasses call it in their destructor.
  void drop_kept();

 private:
  struct Block {
    void* memory;
    std::size_t size;
  };
  struct Kept {
    void* memory;
    std::uint64_t release;  // which one it was
  };

  static std::size_t size_class(std::size_t bytes);
  void* ask_system(std::size_t size);
  void* pop_kept(std::size_t size);
  std::vector<Block> keep(Block block);
  Block take_oldest();

  const std::uint64_t bytes_max_;
  const std::uint64_t kept_floor_;
  const std::size_t block_min_;
  std::atomic<std::uint64_t> used_{0};
  mutable std::mutex mutex_;
  std::condition_variable answered_;
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
