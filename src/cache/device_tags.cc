#include "cache/device_tags.h"

#include "exec/host_vector.h"

namespace breccia::cache {

DeviceTags::~DeviceTags() {
  if (owner_ != nullptr) owner_->tenant().be_left_alone();
}

runs::TagsPtr DeviceTags::on(const exec::DevicePtr& device) {
  if (cache_->set_count() > kSetsMax) return nullptr;
  const auto is_on = [&](const std::shared_ptr<const Copy>& copy) {
    return copy != nullptr && &copy->owner->device() == device.get();
  };
  // A copy is worth its time when every 16th set has changed, or all that there is.
  const std::uint64_t changes = cache_->changes();
  bool is_old = false;
  {
    const std::lock_guard lock(mutex_);
    is_old = !is_on(copy_) || changes - copied_at_ > cache_->set_count() / 16;
  }
  if (is_old && changes > 0) {
    const std::unique_lock lock(copying_, std::try_to_lock);
    if (lock.owns_lock()) copy(device);
  }
  const std::lock_guard lock(mutex_);
  if (!is_on(copy_)) return nullptr;
  return {copy_, copy_->tags.get()};
}

// A device that failed says so in the search that follows.
void DeviceTags::copy(const exec::DevicePtr& device) {
  const auto owner = tenant_of(device);
  if (owner == nullptr) return;
  const std::uint64_t changes = cache_->changes();  // before the tags: what comes after is not in
  const std::uint64_t count = cache_->set_count() * runs::kTagWays;
  exec::HostVector<std::uint32_t> tags(owner->host_memory());
  if (!tags.reserve(count)) return;
  cache_->copy_tags(tags.extend(count));
  auto copied = owner->copy_tags(tags.data(), cache_->set_count());
  if (!copied.ok()) return;
  ++copies_;
  std::shared_ptr<const Copy> before = std::make_shared<const Copy>(Copy{owner, copied.take()});
  const std::lock_guard lock(mutex_);
  copy_.swap(before);
  copied_at_ = changes;
}

std::shared_ptr<runs::Backend> DeviceTags::tenant_of(const exec::DevicePtr& device) {
  if (owner_ != nullptr && &owner_->device() == device.get()) return owner_;
  auto admitted = runs::make_backend(device, {.name = "row cache", .cost = exec::GiveCost::kCopy});
  if (!admitted.ok()) return nullptr;
  if (owner_ != nullptr) owner_->tenant().be_left_alone();
  owner_ = admitted.take();
  owner_->tenant().answer(
      {.give = [this](std::uint64_t) { drop(); }, .lost = [this](const Status&) { drop(); }});
  return owner_;
}

void DeviceTags::drop() {
  std::shared_ptr<const Copy> dropped;  // its memory is given back without the lock
  const std::lock_guard lock(mutex_);
  copy_.swap(dropped);
}

}  // namespace breccia::cache
