#include "exec/fake/fake_device.h"

namespace breccia::exec::fake {

namespace {

/// Plain memory that says what a GPU's says.
class FakePinnedMemory final : public HostMemory {
 public:
  [[nodiscard]] void* allocate(std::size_t bytes) override {
    return plain_host_memory().allocate(bytes);
  }
  void release(void* memory, std::size_t bytes) override {
    plain_host_memory().release(memory, bytes);
  }
  [[nodiscard]] bool is_beside_device() const override { return true; }
};

/// Never destroyed, as plain_host_memory().
HostMemory& fake_pinned_memory() {
  static auto* const memory = new FakePinnedMemory;
  return *memory;
}

class FakeDevice final : public Device {
 public:
  FakeDevice(FakeFaults& faults, std::uint64_t memory_limit)
      : Device(DeviceKind::kFake, /*number=*/0, memory_limit),
        faults_(faults),
        ranges_(faults.ranges()) {}

  [[nodiscard]] std::string describe() const override { return "fake device"; }
  [[nodiscard]] HostMemory& host_memory() override { return fake_pinned_memory(); }
  [[nodiscard]] const Calibration& calibration() const override { return host_calibration(); }
  [[nodiscard]] bool adopt(void* memory, std::size_t) override {
    if (!faults_.refuses_adoption()) return ranges_->add(memory);
    faults_.note_refusal();
    return false;
  }
  void disown(void* memory) override { ranges_->remove(memory); }
  [[nodiscard]] bool reaches(const void*, std::size_t) const override {
    return !faults_.refuses_adoption();
  }

 private:
  [[nodiscard]] TenantPtr make_tenant(TenantOptions options) override {
    const std::uint64_t bytes_max = options.bytes_max;
    return std::make_shared<FakeTenant>(shared_from_this(), std::move(options), bytes_max, faults_);
  }

  FakeFaults& faults_;
  const std::shared_ptr<FakeRanges> ranges_;  // a segment of a log may outlive its test's faults
};

}  // namespace

DevicePtr make_fake_device(FakeFaults* faults, std::uint64_t memory_limit) {
  return std::make_shared<FakeDevice>(*faults, memory_limit);
}

}  // namespace breccia::exec::fake
