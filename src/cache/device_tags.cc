#include "cache/device_tags.h"

#include "exec/host_vector.h"

namespace breccia::cache {

runs::TagsPtr DeviceTags::on(const std::shared_ptr<runs::Backend>& backend) {
  // A copy is worth its time when every 16th set has changed, or all that there is.
  const std::uint64_t changes = cache_->changes();
  bool is_old = false;
  {
    const std::lock_guard lock(mutex_);
    const bool is_here = backend_ == backend && tags_ != nullptr;
    is_old = !is_here || changes - copied_at_ > cache_->set_count() / 16;
  }
  if (is_old && changes > 0) {
    const std::unique_lock lock(copying_, std::try_to_lock);
    if (lock.owns_lock()) copy(backend);
  }
  const std::lock_guard lock(mutex_);
  return backend_ == backend ? tags_ : nullptr;
}

void DeviceTags::copy(const std::shared_ptr<runs::Backend>& backend) {
  const std::uint64_t changes = cache_->changes();  // before the tags: what comes after is not in
  const std::uint64_t count = cache_->set_count() * runs::kTagWays;
  exec::HostVector<std::uint32_t> tags(backend->host_memory());
  if (!tags.reserve(count)) return;
  cache_->copy_tags(tags.extend(count));
  auto copied = backend->copy_tags(tags.data(), cache_->set_count());
  // A device that failed says so in the search that follows.
  if (!copied.ok()) return;
  ++copies_;
  runs::TagsPtr before = copied.take();
  const std::lock_guard lock(mutex_);
  tags_.swap(before);
  backend_ = backend;
  copied_at_ = changes;
}

}  // namespace breccia::cache
