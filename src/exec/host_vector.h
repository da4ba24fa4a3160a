#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "exec/memory.h"

namespace breccia::exec {

/// A growing array of plain data in host memory that a backend reaches at full speed.
/// Threads one owner.
template <class T>
class HostVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit HostVector(HostMemory& memory) : memory_(&memory) {}
  HostVector(const HostVector&) = delete;
  HostVector& operator=(const HostVector&) = delete;
  ~HostVector() { give_back(); }

  /// Makes room for `count` elements in all; false if memory is exhausted (nothing changed).
  [[nodiscard]] bool reserve(std::uint64_t count) {
    if (count <= capacity_) return true;
    const std::uint64_t grown = std::max({count, capacity_ * 2, std::uint64_t{64}});
    auto* const data = static_cast<T*>(memory_->allocate(grown * sizeof(T)));
    if (data == nullptr) return false;
    if (size_ > 0) std::memcpy(static_cast<void*>(data), data_, size_ * sizeof(T));
    give_back();
    data_ = data;
    capacity_ = grown;
    return true;
  }
  [[nodiscard]] bool has_room(std::uint64_t more) const { return size_ + more <= capacity_; }
  /// Appends `count` elements, not initialized, and returns the first. There must be room.
  T* extend(std::uint64_t count) {
    BRECCIA_ASSERT(size_ + count <= capacity_);
    T* const first = data_ + size_;
    size_ += count;
    return first;
  }
  /// extend() by who has asked has_room() already.
  T* take(std::uint64_t count) {
    BRECCIA_INVARIANT(has_room(count));
    T* const first = data_ + size_;
    size_ += count;
    return first;
  }
  void push(T value) { *extend(1) = value; }
  void pop() {
    BRECCIA_ASSERT(size_ > 0);
    --size_;
  }
  void clear() { size_ = 0; }
  void swap(HostVector& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  [[nodiscard]] HostMemory& memory() const { return *memory_; }
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] const T& operator[](std::uint64_t i) const { return data_[i]; }

 private:
  void give_back() {
    if (data_ != nullptr) memory_->release(data_, capacity_ * sizeof(T));
  }

  HostMemory* memory_;
  T* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t capacity_ = 0;
};

}  // namespace breccia::exec
