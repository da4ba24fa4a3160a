#pragma once

#include <mutex>
#include <utility>

#include "exec/device.h"
#include "exec/sim/sim_executor.h"

namespace breccia::exec::sim {

/// An executor for one call at a time.
template <class Executor>
class LockedLease {
 public:
  LockedLease(Executor& executor, std::unique_lock<std::mutex> lock)
      : executor_(&executor), lock_(std::move(lock)) {}
  Executor& operator*() const { return *executor_; }
  Executor* operator->() const { return executor_; }

 private:
  Executor* executor_;
  std::unique_lock<std::mutex> lock_;
};

class SimTenant final : public Tenant {
 public:
  SimTenant(DevicePtr device, TenantOptions options, std::uint64_t bytes_max, std::uint64_t seed)
      : Tenant(std::move(device), std::move(options)),
        pool_(this->device(), bytes_max),
        scheduler_(seed),
        executor_(pool_, scheduler_) {}

  [[nodiscard]] Pool& pool() override { return pool_; }
  Result<LockedLease<SimExecutor>> executor() {
    return LockedLease<SimExecutor>(executor_, std::unique_lock(mutex_));
  }

 private:
  TenantPool<SimPool> pool_;
  std::mutex mutex_;  // guards the scheduler
  Scheduler scheduler_;
  SimExecutor executor_;
};

/// A deterministic device that interleaves groups by `seed`; for tests.
DevicePtr make_simulator_device(std::uint64_t seed);

}  // namespace breccia::exec::sim
