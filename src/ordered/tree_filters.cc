#include "ordered/tree_filters.h"

#include <algorithm>

#include "base/assert.h"
#include "base/sometimes.h"

namespace breccia::ordered {

TreeFilters::TreeFilters(std::uint64_t bytes_max)
    : bytes_max_(bytes_max), seed_(cache::draw_hash_seed()) {}

void TreeFilters::join(FamilyView* family) {
  if (!wants(*family)) return;
  auto misses = std::make_shared<cache::MissMeter>(news_);
  misses->set_due(kMissesMin);
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[family->id];
  BRECCIA_ASSERT(slot.building == nullptr);
  // Called again where the view could not be published: with an empty tree as before.
  slot.current = nullptr;
  const bool fits = bytes_in_use() + cache::KeyFilter::bytes_for(kKeysMin) <= bytes_max_;
  if (shut_ == 0 && !family->tree_has_data && fits) {
    auto made = cache::KeyFilter::make(kKeysMin, seed_);
    if (made.ok()) slot.current = made.take();
  }
  family->filter = slot.current;
  family->misses = std::move(misses);
}

void TreeFilters::forget(FamilyId id) {
  const std::lock_guard lock(mutex_);
  slots_.erase(id);
}

// Nothing is begun meanwhile, and what is finished meanwhile was begun before.
void TreeFilters::add(FamilyId id, std::span<const std::uint64_t> hashes) {
  Slot slot;
  {
    const std::lock_guard lock(mutex_);
    const auto at = slots_.find(id);
    if (at == slots_.end()) return;
    slot = at->second;
  }
  for (const FilterPtr& filter : {slot.current, slot.building}) {
    if (filter != nullptr) filter->add(hashes);
  }
  if (!BRECCIA_SOMETIMES(10)) return;
  whim_.store(true);
  bell().ring();
}

// ---- changes of the tree past the engine -------------------------------------------------------

void TreeFilters::shut() {
  const std::lock_guard lock(mutex_);
  ++shut_;
  for (auto& [id, slot] : slots_) slot.building = nullptr;
}

bool TreeFilters::is_shut() const {
  const std::lock_guard lock(mutex_);
  return shut_ > 0;
}

void TreeFilters::drop_all() {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(shut_ > 0);
  for (auto& [id, slot] : slots_) {
    BRECCIA_ASSERT(slot.building == nullptr);
    slot.current = nullptr;
  }
}

void TreeFilters::reopen() {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(shut_ > 0);
  --shut_;
}

// ---- who builds --------------------------------------------------------------------------------

TreeFilters::FilterPtr TreeFilters::begin(FamilyId id, std::uint64_t keys) {
  const std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  if (shut_ > 0 || at == slots_.end()) return nullptr;
  BRECCIA_ASSERT(at->second.building == nullptr);
  const std::uint64_t used = bytes_in_use();
  const std::uint64_t left = bytes_max_ - std::min(bytes_max_, used);
  const std::uint64_t room = left / runs::kFilterBitsPerKey * 8;  // keys
  const std::uint64_t least = keys + keys / 4;
  const std::uint64_t capacity = std::min(std::max(kKeysMin, 2 * keys), room);
  if (capacity == 0 || capacity < least ||
      used + cache::KeyFilter::bytes_for(capacity) > bytes_max_) {
    return nullptr;
  }
  auto made = cache::KeyFilter::make(capacity, seed_);
  if (made.ok()) at->second.building = made.take();
  return at->second.building;
}

bool TreeFilters::is_building(FamilyId id, const FilterPtr& filter) const {
  const std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  return at != slots_.end() && at->second.building == filter;
}

bool TreeFilters::finish(FamilyId id, const FilterPtr& filter) {
  BRECCIA_ASSERT(filter != nullptr);
  const std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  if (at == slots_.end() || at->second.building != filter) return false;
  BRECCIA_ASSERT(shut_ == 0);
  at->second.current = filter;
  at->second.building = nullptr;
  built_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void TreeFilters::give_up(FamilyId id, const FilterPtr& filter) {
  const std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  if (at != slots_.end() && at->second.building == filter) at->second.building = nullptr;
}

// ---- figures -----------------------------------------------------------------------------------

std::uint64_t TreeFilters::bytes_in_use() const {
  std::uint64_t bytes = 0;
  for (const auto& [id, slot] : slots_) {
    for (const FilterPtr& filter : {slot.current, slot.building}) {
      if (filter != nullptr) bytes += filter->bytes();
    }
  }
  return bytes;
}

std::uint64_t TreeFilters::keys() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t keys = 0;
  for (const auto& [id, slot] : slots_) keys += slot.current == nullptr ? 0 : slot.current->keys();
  return keys;
}

std::uint64_t TreeFilters::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_in_use();
}

}  // namespace breccia::ordered
