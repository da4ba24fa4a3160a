#include "exec/fake/fake_device.h"

#include <mutex>
#include <string>
#include <utility>

#include "exec/calibrate.h"
#include "exec/fake/fake_executor.h"
#include "exec/pool_backend.h"

namespace breccia::exec {

namespace fake {

Status FakeExecutor::begin(When reports) {
  const bool fails = faults_.next_fails();
  const Status lost = Status::IOError("fake device", "device lost");
  if (lost_) return lost;
  if (!fails) return Status::OK();
  switch (faults_.fault()) {
    case Fault::kOutOfMemory:
      return Status::MemoryLimit("fake device", "out of memory");
    case Fault::kLaunchFailure:
      return Status::IOError("fake device", "launch failure");
    case Fault::kDeviceLost:
      lost_ = true;
  }
  return reports == When::kAtOnce ? lost : Status::OK();
}

}  // namespace fake

namespace {

constexpr std::uint64_t kMemoryBytesMax = 1ULL << 30;
constexpr std::uint64_t kSeed = 1;

/// The one executor of a fake device, for one call at a time.
class Lease {
 public:
  Lease(fake::FakeExecutor& executor, std::unique_lock<std::mutex> lock)
      : executor_(&executor), lock_(std::move(lock)) {}
  fake::FakeExecutor& operator*() const { return *executor_; }
  fake::FakeExecutor* operator->() const { return executor_; }

 private:
  fake::FakeExecutor* executor_;
  std::unique_lock<std::mutex> lock_;
};

class FakeDevice final : public PoolBackend<FakeDevice> {
 public:
  explicit FakeDevice(FakeFaults& faults)
      : faults_(faults), scheduler_(kSeed), executor_(pool_, scheduler_, faults) {}

  [[nodiscard]] BackendKind kind() const override { return BackendKind::kCuda; }
  [[nodiscard]] std::string describe() const override { return "fake device"; }
  [[nodiscard]] HostMemory& host_memory() override { return plain_host_memory(); }
  [[nodiscard]] const Calibration& calibration() const override { return host_calibration(); }
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
  FakeFaults& faults_;
  sim::SimPool pool_{kMemoryBytesMax};
  std::mutex mutex_;  // guards the executor
  sim::Scheduler scheduler_;
  fake::FakeExecutor executor_;
};

}  // namespace

std::unique_ptr<Backend> make_fake_device(FakeFaults* faults) {
  return std::make_unique<FakeDevice>(*faults);
}

}  // namespace breccia::exec
