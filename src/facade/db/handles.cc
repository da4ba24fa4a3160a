#include "facade/db/handles.h"

#include <rocksdb/comparator.h>

#include <array>

#include "base/memory.h"
#include "tree/level0_triggers.h"

namespace breccia::facade {

void destroy(std::vector<rocksdb::ColumnFamilyHandle*>* handles) {
  for (rocksdb::ColumnFamilyHandle* const handle : *handles) delete handle;
  handles->clear();
}

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

std::unique_ptr<Handle> Handles::make(const tree::TreeFamily& tree, Holder holder) {
  std::unique_ptr<Handle> handle;  // its end needs the lock
  const std::lock_guard lock(mutex_);
  auto at = families_.find(tree->GetID());
  // The entry comes last: without memory for a handle nobody would take it away.
  const auto family = at != families_.end() ? at->second.family : std::make_shared<Family>(tree);
  handle.reset(new Handle(family, shared_from_this(), holder));
  live_.insert(handle.get());
  if (at == families_.end()) at = families_.emplace(tree->GetID(), Entry{family}).first;
  ++at->second.handles;
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
    if (at == families_.end() || --at->second.handles > 0) return;
    if (at->second.family->at_drop() != nullptr) forget = hooks_.forget;
    families_.erase(at);
  }
  if (forget) forget(id);
}

void Handles::keep_memory(void* destroyed) {
  std::unique_ptr<void, FreeMemory> memory(destroyed);
  const std::lock_guard lock(mutex_);
  base::as_memory_allows([&] { destroyed_.push_back(std::move(memory)); });
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
