#include "base/epochs.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"

namespace breccia::base {

Epochs::~Epochs() {
  for (const Place& place : places_) BRECCIA_ASSERT(place.since.load() == kOutside);
  for (const Retired& one : retired_) one.free(one.block);
}

std::uint32_t Epochs::enter() {
  const std::uint32_t slot = thread_slot();
  if (slot == kThreadSlots) return slot;
  Place& place = places_[slot];
  if (place.depth++ > 0) return slot;
  // An exchange, so that pointers are read behind it: who does not see it has stored before what
  // takes their place.
  place.since.exchange(now_.load(std::memory_order_acquire));
  return slot;
}

void Epochs::leave(std::uint32_t slot) {
  if (slot == kThreadSlots) return;
  Place& place = places_[slot];
  BRECCIA_ASSERT(place.depth > 0);
  if (--place.depth > 0) return;
  place.since.store(kOutside, std::memory_order_release);
}

void Epochs::retire(std::span<void* const> blocks, Free free) {
  std::vector<Retired> gone;
  bool are_noted = false;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t epoch = now_.fetch_add(1);
    const std::size_t before = retired_.size();
    as_memory_allows([&] {
      const std::size_t all = before + blocks.size();
      if (all > retired_.capacity()) retired_.reserve(std::max(all, 2 * retired_.capacity()));
      for (void* const block : blocks) retired_.push_back({block, free, epoch});
      are_noted = true;
    });
    if (before / kCollectEvery != retired_.size() / kCollectEvery) collect(&gone);
    while (!are_noted && oldest() <= epoch) std::this_thread::yield();
  }
  for (const Retired& one : gone) one.free(one.block);
  for (void* const block : blocks) {
    if (!are_noted) free(block);
  }
}

std::uint64_t Epochs::retired() const {
  const std::lock_guard lock(mutex_);
  return retired_.size();
}

/// Takes out what nobody can look at.
void Epochs::collect(std::vector<Retired>* gone) {
  const std::uint64_t epoch = oldest();
  const auto end = std::find_if(retired_.begin(), retired_.end(),
                                [&](const Retired& one) { return one.epoch >= epoch; });
  as_memory_allows([&] {
    gone->assign(retired_.begin(), end);
    retired_.erase(retired_.begin(), end);
  });
}

/// The oldest epoch that somebody came in who is still there.
std::uint64_t Epochs::oldest() {
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
  for (const Place& place : places_) {
    const std::uint64_t since = place.since.load();
    if (since != kOutside) oldest = std::min(oldest, since);
  }
  return oldest;
}

}  // namespace breccia::base
