#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/host_vector.h"

namespace breccia::ordered {

/// Room for what a search finds of a slice of a batch's lookups (runs::FoundRef).
/// Threads one owner.
struct SliceRoom {
  explicit SliceRoom(exec::HostMemory& memory) : found(memory), ops(memory) {}

  [[nodiscard]] std::uint64_t memory_bytes() const {
    return found.capacity() * sizeof(std::uint64_t) + ops.capacity();
  }

  exec::HostVector<std::uint64_t> found;
  exec::HostVector<std::uint8_t> ops;
};

/// The rooms of all batches. The next slice gets the one that was given back last: what there is of
/// it in a core's cache stays there, and memory beside a device is pinned once, not for each batch.
/// Bound   kKeptBytesMax of what is kept.
/// Owner   who takes one gives it back, before this ends.
/// Threads any.
class SliceRooms {
 public:
  static constexpr std::uint64_t kKeptBytesMax = 256 << 20;

  /// Owner   `memory` lives longer.
  explicit SliceRooms(exec::HostMemory& memory) : memory_(memory) {}

  /// Errors  std::bad_alloc.
  [[nodiscard]] std::unique_ptr<SliceRoom> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!kept_.empty()) {
        std::unique_ptr<SliceRoom> room = std::move(kept_.back());
        kept_.pop_back();
        BRECCIA_ASSERT(room != nullptr && room->memory_bytes() <= kept_bytes_);
        kept_bytes_ -= room->memory_bytes();
        return room;
      }
    }
    return std::make_unique<SliceRoom>(memory_);
  }
  void give_back(std::unique_ptr<SliceRoom> room) {
    BRECCIA_ASSERT(room != nullptr);
    const std::uint64_t bytes = room->memory_bytes();
    const std::lock_guard lock(mutex_);
    if (bytes > kKeptBytesMax - kept_bytes_) return;
    base::as_memory_allows([&] {
      kept_.push_back(std::move(room));
      kept_bytes_ += bytes;
    });
    BRECCIA_ASSERT(kept_bytes_ <= kKeptBytesMax);
  }

 private:
  exec::HostMemory& memory_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<SliceRoom>> kept_;
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace breccia::ordered
