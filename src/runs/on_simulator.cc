#include <mutex>
#include <string>
#include <utility>

#include "exec/calibrate.h"
#include "exec/sim/sim_executor.h"
#include "runs/pool_backend.h"

namespace breccia::runs {

namespace {

constexpr std::uint64_t kMemoryBytesMax = 8ULL << 30;

/// The one executor of a simulated backend, for one call at a time.
class Lease {
 public:
  Lease(exec::sim::SimExecutor& executor, std::mutex& mutex) : executor_(&executor), lock_(mutex) {}
  exec::sim::SimExecutor& operator*() const { return *executor_; }
  exec::sim::SimExecutor* operator->() const { return executor_; }

 private:
  exec::sim::SimExecutor* executor_;
  std::unique_lock<std::mutex> lock_;
};

class SimBackend final : public PoolBackend<SimBackend> {
 public:
  explicit SimBackend(std::uint64_t seed)
      : seed_(seed), pool_(kMemoryBytesMax), scheduler_(seed), executor_(pool_, scheduler_) {}

  [[nodiscard]] BackendKind kind() const override { return BackendKind::kSimulator; }
  [[nodiscard]] std::string describe() const override {
    return "simulator with seed " + std::to_string(seed_);
  }
  [[nodiscard]] exec::HostMemory& host_memory() override { return exec::plain_host_memory(); }
  [[nodiscard]] const exec::Calibration& calibration() const override {
    return exec::host_calibration();
  }
  [[nodiscard]] std::uint64_t memory_used() const override { return pool_.used(); }
  [[nodiscard]] std::uint64_t memory_limit() const override { return pool_.bytes_max(); }
  [[nodiscard]] bool adopt(void*, std::size_t) override { return true; }
  void disown(void*) override {}

  Result<Lease> executor() { return Lease(executor_, mutex_); }

 private:
  const std::uint64_t seed_;
  exec::sim::SimPool pool_;
  std::mutex mutex_;  // guards the scheduler
  exec::sim::Scheduler scheduler_;
  exec::sim::SimExecutor executor_;
};

}  // namespace

std::unique_ptr<Backend> make_simulator_backend(std::uint64_t seed) {
  return std::make_unique<SimBackend>(seed);
}

}  // namespace breccia::runs
