#include "txn/tracked_keys.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::txn {

void TrackedKeys::track(FamilyId family, const std::string& key, std::uint64_t since,
                        bool read_only, bool exclusive) {
  const auto [at, is_new] = families_[family].try_emplace(key, TrackedKey{since});
  TrackedKey& tracked = at->second;
  tracked.since = std::min(tracked.since, since);
  ++(read_only ? tracked.reads : tracked.writes);
  tracked.exclusive = tracked.exclusive || exclusive;
}

TrackedKeys::Untracked TrackedKeys::untrack_read(FamilyId family, const std::string& key) {
  const auto keys = families_.find(family);
  if (keys == families_.end()) return Untracked::kNone;
  const auto at = keys->second.find(key);
  if (at == keys->second.end() || at->second.reads == 0) return Untracked::kNone;
  --at->second.reads;
  if (at->second.reads + at->second.writes > 0) return Untracked::kOne;
  keys->second.erase(at);
  return Untracked::kLast;
}

void TrackedKeys::add(const TrackedKeys& later) {
  // What needs memory comes first, with counts of zero, which mean nothing.
  for (const auto& [family, keys] : later.families_) {
    Keys& own = families_[family];
    for (const auto& [key, added] : keys) own.try_emplace(key, TrackedKey{added.since});
  }
  for (const auto& [family, keys] : later.families_) {
    Keys& own = families_[family];
    for (const auto& [key, added] : keys) {
      TrackedKey& tracked = own.find(key)->second;
      tracked.since = std::min(tracked.since, added.since);
      tracked.reads += added.reads;
      tracked.writes += added.writes;
      tracked.exclusive = tracked.exclusive || added.exclusive;
    }
  }
}

void TrackedKeys::subtract(const TrackedKeys& later) {
  for (const auto& [family, keys] : later.families_) {
    Keys& own = families_[family];
    for (const auto& [key, taken] : keys) {
      const auto at = own.find(key);
      if (at == own.end()) continue;
      BRECCIA_ASSERT(at->second.reads >= taken.reads && at->second.writes >= taken.writes);
      at->second.reads -= taken.reads;
      at->second.writes -= taken.writes;
      if (at->second.reads + at->second.writes == 0) own.erase(at);
    }
  }
}

TrackedKeys TrackedKeys::only_in(const TrackedKeys& later) const {
  TrackedKeys only;
  for (const auto& [family, keys] : later.families_) {
    for (const auto& [key, tracked] : keys) {
      const TrackedKey* const all = find(family, key);
      if (all != nullptr && all->reads == tracked.reads && all->writes == tracked.writes) {
        only.families_[family].emplace(key, tracked);
      }
    }
  }
  return only;
}

const TrackedKey* TrackedKeys::find(FamilyId family, const std::string& key) const {
  const auto keys = families_.find(family);
  if (keys == families_.end()) return nullptr;
  const auto at = keys->second.find(key);
  return at == keys->second.end() ? nullptr : &at->second;
}

std::uint64_t TrackedKeys::count() const {
  std::uint64_t count = 0;
  for (const auto& [family, keys] : families_) count += keys.size();
  return count;
}

}  // namespace breccia::txn
