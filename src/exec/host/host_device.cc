#include "exec/host/host_device.h"

#include <tbb/info.h>

namespace breccia::exec::host {

namespace {

class HostDevice final : public Device {
 public:
  HostDevice() : Device(DeviceKind::kHost, /*number=*/0, HostTenant::kNoLimit) {}

  [[nodiscard]] std::string describe() const override {
    return "host backend on " + std::to_string(tbb::info::default_concurrency()) + " CPU threads";
  }
  [[nodiscard]] HostMemory& host_memory() override { return plain_host_memory(); }
  [[nodiscard]] const Calibration& calibration() const override { return host_calibration(); }
  [[nodiscard]] bool adopt(void*, std::size_t) override { return true; }
  void disown(void*) override {}
  [[nodiscard]] bool reaches(const void*, std::size_t) const override { return true; }

 private:
  [[nodiscard]] TenantPtr make_tenant(TenantOptions options) override {
    return std::make_shared<HostTenant>(shared_from_this(), std::move(options));
  }
};

}  // namespace

DevicePtr make_host_device() { return std::make_shared<HostDevice>(); }

}  // namespace breccia::exec::host
