#include "facade/db/snapshots.h"

#include <algorithm>
#include <chrono>

#include "base/memory.h"

namespace breccia::facade {

const rocksdb::Snapshot* Snapshots::take(ordered::Pin pin) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto snapshot = std::make_unique<Snapshot>(
      std::move(pin), std::chrono::duration_cast<std::chrono::seconds>(now).count());
  const rocksdb::Snapshot* const taken = snapshot.get();
  const std::lock_guard lock(mutex_);
  live_.emplace(taken, std::move(snapshot));
  return taken;
}

bool Snapshots::release(const rocksdb::Snapshot* snapshot) {
  ordered::ViewPtr held;  // goes after the lock
  const std::lock_guard lock(mutex_);
  auto node = live_.extract(snapshot);
  if (node.empty()) return false;
  held = node.mapped()->take_view();
  base::as_memory_allows([&] { released_.push_back(std::move(node.mapped())); });
  if (released_.size() > kReleasedMax) released_.pop_front();
  return true;
}

void Snapshots::release_all() {
  std::map<const rocksdb::Snapshot*, std::unique_ptr<Snapshot>> released;
  const std::lock_guard lock(mutex_);
  released.swap(live_);
}

std::optional<ordered::Pin> Snapshots::find(const rocksdb::Snapshot* snapshot) const {
  const std::lock_guard lock(mutex_);
  const auto at = live_.find(snapshot);
  if (at == live_.end()) return std::nullopt;
  return at->second->pin();
}

Snapshots::Figures Snapshots::figures() const {
  const std::lock_guard lock(mutex_);
  if (live_.empty()) return {};
  const auto older = [](const auto& a, const auto& b) {
    return a.second->GetSequenceNumber() < b.second->GetSequenceNumber();
  };
  const Snapshot& oldest = *std::min_element(live_.begin(), live_.end(), older)->second;
  return {live_.size(), static_cast<std::uint64_t>(oldest.GetUnixTime()),
          oldest.GetSequenceNumber()};
}

}  // namespace breccia::facade
