#include <tbb/info.h>

#include <string>

#include "exec/calibrate.h"
#include "exec/host/host_executor.h"
#include "exec/host/host_memory.h"
#include "runs/pool_backend.h"

namespace breccia::runs {

namespace {

class HostBackend final : public PoolBackend<HostBackend> {
 public:
  [[nodiscard]] BackendKind kind() const override { return BackendKind::kHost; }
  [[nodiscard]] std::string describe() const override {
    return "host backend on " + std::to_string(tbb::info::default_concurrency()) + " CPU threads";
  }
  [[nodiscard]] exec::HostMemory& host_memory() override { return exec::plain_host_memory(); }
  [[nodiscard]] const exec::Calibration& calibration() const override {
    return exec::host_calibration();
  }
  [[nodiscard]] std::uint64_t memory_used() const override { return pool_.used(); }
  [[nodiscard]] std::uint64_t memory_limit() const override { return pool_.bytes_max(); }
  [[nodiscard]] bool adopt(void*, std::size_t) override { return true; }
  void disown(void*) override {}

  Result<std::unique_ptr<exec::host::HostExecutor>> executor() {
    return std::make_unique<exec::host::HostExecutor>(pool_);
  }

 private:
  exec::host::HostPool pool_{~std::uint64_t{0} / 2};
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() { return std::make_unique<HostBackend>(); }

}  // namespace breccia::runs
