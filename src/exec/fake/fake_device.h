#pragma once

#include <mutex>
#include <utility>

#include "exec/device.h"
#include "exec/fake/fake_executor.h"
#include "exec/fake/fake_faults.h"
#include "exec/sim/sim_device.h"

namespace breccia::exec::fake {

class FakeTenant final : public Tenant {
 public:
  FakeTenant(DevicePtr device, TenantOptions options, std::uint64_t bytes_max, FakeFaults& faults)
      : Tenant(std::move(device), std::move(options)),
        pool_(this->device(), bytes_max),
        scheduler_(kSeed),
        executor_(this->device(), pool_, scheduler_, faults) {}

  [[nodiscard]] Pool& pool() override { return pool_; }
  Result<sim::LockedLease<FakeExecutor>> executor() {
    std::unique_lock lock(mutex_);
    BRECCIA_TRY(executor_.begin_call());
    return sim::LockedLease<FakeExecutor>(executor_, std::move(lock));
  }

 private:
  static constexpr std::uint64_t kSeed = 1;

  TenantPool<sim::SimPool> pool_;
  std::mutex mutex_;  // guards the executor
  sim::Scheduler scheduler_;
  FakeExecutor executor_;
};

/// A device for tests of failures: the host cannot read its memory, of which it has `memory_limit`
/// bytes, and it fails where `faults` says so. It computes as the simulator does, with a fixed
/// seed.
DevicePtr make_fake_device(FakeFaults* faults, std::uint64_t memory_limit = 1ULL << 30);

}  // namespace breccia::exec::fake
