#pragma once

#include <mutex>
#include <shared_mutex>

namespace breccia::base {

/// Many share it, or one has it. Who wants it for itself waits only for those that have it: who
/// comes later stands behind, which std::shared_mutex does not promise.
/// Shape   as std::shared_mutex.
class SectionMutex {
 public:
  void lock() {
    gate_.lock();
    table_.lock();
  }
  bool try_lock() {
    if (!gate_.try_lock()) return false;
    if (table_.try_lock()) return true;
    gate_.unlock();
    return false;
  }
  void unlock() {
    table_.unlock();
    gate_.unlock();
  }
  void lock_shared() {
    const std::lock_guard gate(gate_);
    table_.lock_shared();
  }
  void unlock_shared() { table_.unlock_shared(); }

 private:
  std::mutex gate_;
  std::shared_mutex table_;
};

}  // namespace breccia::base
