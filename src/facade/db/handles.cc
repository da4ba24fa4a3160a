#include "facade/db/handles.h"

#include <rocksdb/comparator.h>

#include <array>

#include "tree/level0_triggers.h"

namespace breccia::facade {

Status not_a_handle() {
  return Status::InvalidArgument(
      "not a column family handle of this database",
      "it belongs to another one, was destroyed, or the database is closed");
}

Handle::~Handle() {
  if (holder_ == Holder::kUser) registry_->tell_going(this);
  registry_->remove(this);
}

void Handle::operator delete(Handle* handle, std::destroying_delete_t) {
  const std::shared_ptr<Handles> registry = handle->registry_;  // the handle's may be the last
  handle->~Handle();
  registry->keep_memory(handle);
}

// The tree's handle is no TreeHandle, it only begins like one: a sanitizer would say so.
[[gnu::no_sanitize("vptr")]] void* Handle::cfd() const {
  rocksdb::ColumnFamilyHandle* const tree = family_->tree();
  return tree == nullptr ? nullptr : static_cast<const TreeHandle*>(tree)->cfd();
}

Status Handle::GetDescriptor(rocksdb::ColumnFamilyDescriptor* descriptor) {
  rocksdb::ColumnFamilyHandle* const tree = family_->tree();
  if (tree == nullptr) return not_a_handle();
  const Status status = tree->GetDescriptor(descriptor);
  if (status.ok()) {
    descriptor->options = tree::given_triggers(descriptor->options, registry_->flush_parts());
  }
  return status;
}

const rocksdb::Comparator* Handle::GetComparator() const { return rocksdb::BytewiseComparator(); }

Handle* Handles::make(const tree::TreeFamily& tree, Holder holder) {
  const std::lock_guard lock(mutex_);
  Entry& entry = families_[tree->GetID()];
  if (entry.family == nullptr) entry.family = std::make_shared<Family>(tree);
  ++entry.handles;
  auto* const handle = new Handle(entry.family, shared_from_this(), holder);
  live_.insert(handle);
  change_generation();
  return handle;
}

Family* Handles::find(const rocksdb::ColumnFamilyHandle* handle) const {
  struct Known {
    const rocksdb::ColumnFamilyHandle* handle = nullptr;
    std::uint64_t generation = 0;
    Family* family = nullptr;
  };
  constexpr std::size_t kKnownMax = 16;
  thread_local std::array<Known, kKnownMax> all;
  Known& known = all[reinterpret_cast<std::uintptr_t>(handle) / sizeof(Handle) % kKnownMax];
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (known.handle == handle && known.generation == generation) return known.family;
  const std::lock_guard lock(mutex_);
  if (!live_.contains(handle)) return nullptr;
  known = {handle, generation_.load(std::memory_order_relaxed),
           static_cast<const Handle*>(handle)->family().get()};
  return known.family;
}

void Handles::tell_going(Handle* handle) const {
  std::function<void(Handle*)> going;
  {
    const std::lock_guard lock(mutex_);
    if (live_.contains(handle)) going = hooks_.going;
  }
  if (going) going(handle);
}

void Handles::remove(const Handle* handle) {
  std::function<void(FamilyId)> forget;
  const FamilyId id = handle->GetID();
  {
    const std::lock_guard lock(mutex_);
    if (live_.erase(handle) == 0) return;
    change_generation();
    const auto at = families_.find(id);
    if (--at->second.handles > 0) return;
    if (at->second.family->at_drop() != nullptr) forget = hooks_.forget;
    families_.erase(at);
  }
  if (forget) forget(id);
}

void Handles::keep_memory(void* destroyed) {
  const std::lock_guard lock(mutex_);
  destroyed_.emplace_back(destroyed);
  if (destroyed_.size() > kDestroyedMax) destroyed_.pop_front();
}

void Handles::close() {
  const std::lock_guard lock(mutex_);
  hooks_ = {};
  live_.clear();
  change_generation();
  for (auto& [id, entry] : families_) entry.family->close();
  families_.clear();
}

void Handles::change_generation() {
  static std::atomic<std::uint64_t> last{0};
  generation_.store(last.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace breccia::facade
