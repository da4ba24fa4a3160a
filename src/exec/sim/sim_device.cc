#include "exec/sim/sim_device.h"

namespace breccia::exec::sim {

namespace {

constexpr std::uint64_t kMemoryBytesMax = 8ULL << 30;

class SimDevice final : public Device {
 public:
  explicit SimDevice(std::uint64_t seed)
      : Device(DeviceKind::kSimulator, /*number=*/0, kMemoryBytesMax), seed_(seed) {}

  [[nodiscard]] std::string describe() const override {
    return "simulator with seed " + std::to_string(seed_);
  }
  [[nodiscard]] HostMemory& host_memory() override { return plain_host_memory(); }
  [[nodiscard]] const Calibration& calibration() const override { return host_calibration(); }
  [[nodiscard]] bool adopt(void*, std::size_t) override { return true; }
  void disown(void*) override {}
  [[nodiscard]] bool reaches(const void*, std::size_t) const override { return true; }

 private:
  [[nodiscard]] TenantPtr make_tenant(TenantOptions options) override {
    const std::uint64_t bytes_max = options.bytes_max;
    return std::make_shared<SimTenant>(shared_from_this(), std::move(options), bytes_max, seed_);
  }

  const std::uint64_t seed_;
};

}  // namespace

DevicePtr make_simulator_device(std::uint64_t seed) { return std::make_shared<SimDevice>(seed); }

}  // namespace breccia::exec::sim
