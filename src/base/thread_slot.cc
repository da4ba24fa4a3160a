#include "base/thread_slot.h"

#include <bit>
#include <mutex>

namespace breccia::base {

namespace {

std::mutex slots_mutex;
std::uint64_t taken_slots = 0;  // a bit each
static_assert(kThreadSlots == 64);

struct Owned {
  Owned() {
    const std::lock_guard lock(slots_mutex);
    slot = static_cast<std::uint32_t>(std::countr_one(taken_slots));
    if (slot < kThreadSlots) taken_slots |= 1ULL << slot;
  }
  ~Owned() {
    const std::lock_guard lock(slots_mutex);
    if (slot < kThreadSlots) taken_slots &= ~(1ULL << slot);
    slot = kThreadSlots;  // objects that end after this one may still count
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  std::uint32_t slot;
};

}  // namespace

std::uint32_t thread_slot() {
  thread_local Owned owned;
  return owned.slot;
}

}  // namespace breccia::base
