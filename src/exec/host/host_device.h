#pragma once

#include <memory>

#include "exec/device.h"
#include "exec/host/host_executor.h"
#include "exec/host/host_memory.h"

namespace breccia::exec::host {

/// A part of the host's memory and cores; without a limit.
class HostTenant final : public Tenant {
 public:
  HostTenant(DevicePtr device, TenantOptions options)
      : Tenant(std::move(device), std::move(options)), pool_(kNoLimit) {}

  [[nodiscard]] Pool& pool() override { return pool_; }
  /// An executor for one call.
  Result<std::unique_ptr<HostExecutor>> executor() { return std::make_unique<HostExecutor>(pool_); }

  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0} / 2;

 private:
  HostPool pool_;
};

DevicePtr make_host_device();

}  // namespace breccia::exec::host
