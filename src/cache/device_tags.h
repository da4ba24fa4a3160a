#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "cache/row_cache.h"
#include "runs/backend.h"

namespace breccia::cache {

/// A cache's tags in a device's memory, copied again when enough of the cache has changed. Every
/// set's tags go, hot or not: they are a 32nd of the cache, and a copy of 2 MiB takes 40 us.
///
/// Of a larger cache than kSetsMax there is none: reading all sets would cost a batch more than its
/// lookups on the CPU.
///
/// A copy may be older than the cache. What it leads to is looked at in the cache itself, so an old
/// copy costs lookups in the tree and is never the source of an answer. It is a tenant of its own,
/// which drops it when the device's memory is wanted.
/// Threads any.
class DeviceTags {
 public:
  /// Of 512 MiB, whose copy is 16 MiB.
  static constexpr std::uint64_t kSetsMax = (512ULL << 20) / RowCache::kSetBytes;

  explicit DeviceTags(std::shared_ptr<RowCache> cache) : cache_(std::move(cache)) {}
  ~DeviceTags();
  DeviceTags(const DeviceTags&) = delete;
  DeviceTags& operator=(const DeviceTags&) = delete;

  /// The tags in `device`'s memory, not much older than the cache. Null: the cache is empty or
  /// too large, there is no memory, or somebody else makes the first copy just now.
  [[nodiscard]] runs::TagsPtr on(const exec::DevicePtr& device);
  /// Copies that were made.
  [[nodiscard]] std::uint64_t copies() const { return copies_.load(std::memory_order_relaxed); }

 private:
  /// A copy, and the tenant in whose memory it lies.
  struct Copy {
    std::shared_ptr<runs::Backend> owner;
    runs::TagsPtr tags;
  };

  void copy(const exec::DevicePtr& device);
  [[nodiscard]] std::shared_ptr<runs::Backend> tenant_of(const exec::DevicePtr& device);
  void drop();

  const std::shared_ptr<RowCache> cache_;
  std::mutex copying_;                    // who makes a copy; guards owner_
  std::shared_ptr<runs::Backend> owner_;  // on the device that was asked for last
  std::mutex mutex_;                      // guards what follows
  std::shared_ptr<const Copy> copy_;
  std::uint64_t copied_at_ = 0;  // changes of the cache
  std::atomic<std::uint64_t> copies_{0};
};

}  // namespace breccia::cache
