#include "runs/on_fake.h"

#include <mutex>
#include <string>
#include <utility>

#include "exec/calibrate.h"
#include "exec/fake/fake_executor.h"
#include "runs/pool_backend.h"

namespace breccia::runs {

namespace {

constexpr std::uint64_t kMemoryBytesMax = 1ULL << 30;
constexpr std::uint64_t kSeed = 1;

/// The one executor of a fake device, for one call at a time.
class Lease {
 public:
  Lease(exec::fake::FakeExecutor& executor, std::unique_lock<std::mutex> lock)
      : executor_(&executor), lock_(std::move(lock)) {}
  exec::fake::FakeExecutor& operator*() const { return *executor_; }
  exec::fake::FakeExecutor* operator->() const { return executor_; }

 private:
  exec::fake::FakeExecutor* executor_;
  std::unique_lock<std::mutex> lock_;
};

class FakeDevice final : public PoolBackend<FakeDevice> {
 public:
  explicit FakeDevice(exec::FakeFaults& faults)
      : faults_(faults), scheduler_(kSeed), executor_(pool_, scheduler_, faults) {}

  [[nodiscard]] BackendKind kind() const override { return BackendKind::kCuda; }
  [[nodiscard]] std::string describe() const override { return "fake device"; }
  [[nodiscard]] exec::HostMemory& host_memory() override { return exec::plain_host_memory(); }
  [[nodiscard]] const exec::Calibration& calibration() const override {
    return exec::host_calibration();
  }
  [[nodiscard]] std::uint64_t memory_used() const override { return pool_.used(); }
  [[nodiscard]] std::uint64_t memory_limit() const override { return pool_.bytes_max(); }
  [[nodiscard]] bool adopt(void*, std::size_t) override { return !faults_.refuses_adoption(); }
  void disown(void*) override {}

  Result<Lease> executor() {
    std::unique_lock lock(mutex_);
    BRECCIA_TRY(executor_.begin_call());
    return Lease(executor_, std::move(lock));
  }

 private:
  exec::FakeFaults& faults_;
  exec::sim::SimPool pool_{kMemoryBytesMax};
  std::mutex mutex_;  // guards the executor
  exec::sim::Scheduler scheduler_;
  exec::fake::FakeExecutor executor_;
};

}  // namespace

std::unique_ptr<Backend> make_fake_device(exec::FakeFaults* faults) {
  return std::make_unique<FakeDevice>(*faults);
}

}  // namespace breccia::runs
