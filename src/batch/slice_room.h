#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "exec/host_vector.h"
#include "record/key_columns.h"

namespace breccia::batch {

/// Room for what a search finds of a slice of a batch's lookups, and for its columns, where keys
/// lie in the caller's array. The next slice gets the same: so what there is of it in a core's
/// cache stays there, and does not go to main memory and back.
/// Threads one owner.
struct SliceRoom {
  explicit SliceRoom(exec::HostMemory& memory)
      : keys(memory), found(memory), numbers(memory), ops(memory) {}

  record::KeyColumns keys;
  exec::HostVector<std::uint64_t> found, numbers;
  exec::HostVector<std::uint8_t> ops;
};

/// The rooms of a batch: as many as threads work on its slices.
/// Owner   who takes one gives it back.
/// Threads any.
class SliceRooms {
 public:
  explicit SliceRooms(exec::HostMemory& memory) : memory_(memory) {}

  /// The last that was given back.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::unique_ptr<SliceRoom> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(++made_);  // so that none is lost when it comes back
      return std::make_unique<SliceRoom>(memory_);
    }
    std::unique_ptr<SliceRoom> room = std::move(idle_.back());
    BRECCIA_ASSERT(room != nullptr);
    idle_.pop_back();
    return room;
  }
  void give_back(std::unique_ptr<SliceRoom> room) {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(room != nullptr && idle_.size() < made_);
    idle_.push_back(std::move(room));
  }

 private:
  exec::HostMemory& memory_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<SliceRoom>> idle_;
  std::size_t made_ = 0;
};

}  // namespace breccia::batch
