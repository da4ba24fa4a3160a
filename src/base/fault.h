#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "base/memory.h"
#include "base/result.h"

namespace breccia::base {

/// The first fault of the store's media. From then on the store is read-only.
/// Threads any.
class Fault {
 public:
  enum class Place { kLog, kFlush };

  /// `hear` is told of the first fault. Before any thread uses the fault.
  void tell(std::function<void(Place place, const Status& cause)> hear) { hear_ = std::move(hear); }

  void set(Place place, const Status& cause) {
    const std::lock_guard lock(mutex_);
    if (cause_.ok()) {
      cause_ = copy_of(cause);
      as_memory_allows([&] {
        if (hear_) hear_(place, cause);
      });
    }
    set_.store(true, std::memory_order_release);
  }
  [[nodiscard]] Status get() const {
    if (!set_.load(std::memory_order_acquire)) return Status::OK();
    const std::lock_guard lock(mutex_);
    return copy_of(cause_);
  }

 private:
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  Status cause_;
  std::function<void(Place place, const Status& cause)> hear_;
};

}  // namespace breccia::base
