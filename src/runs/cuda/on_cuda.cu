#include <algorithm>
#include <string>
#include <utility>

#include "exec/cuda/cuda_calibrate.cuh"
#include "exec/cuda/cuda_executor.cuh"
#include "runs/cuda/small_search.cuh"
#include "runs/pool_backend.h"

namespace breccia::runs {

namespace {

using exec::cuda::CudaExecutor;

class CudaBackend final : public PoolBackend<CudaBackend> {
 public:
  /// An executor for one call; the backend gets it back.
  class Lease {
   public:
    Lease(CudaBackend& backend, std::unique_ptr<CudaExecutor> executor)
        : backend_(&backend), executor_(std::move(executor)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (executor_ != nullptr) backend_->take_back(std::move(executor_));
    }
    CudaExecutor& operator*() const { return *executor_; }
    CudaExecutor* operator->() const { return executor_.get(); }

   private:
    CudaBackend* backend_;
    std::unique_ptr<CudaExecutor> executor_;
  };

  CudaBackend(std::uint64_t memory_bytes_max, std::string name)
      : name_(std::move(name)), memory_(memory_bytes_max) {}

  [[nodiscard]] BackendKind kind() const override { return BackendKind::kCuda; }
  [[nodiscard]] std::string describe() const override {
    return "CUDA backend on " + name_ + " with " +
           std::to_string(memory_.device().bytes_max() >> 20) + " MiB";
  }
  [[nodiscard]] exec::HostMemory& host_memory() override { return memory_; }
  [[nodiscard]] const exec::Calibration& calibration() const override { return calibration_; }
  [[nodiscard]] std::uint64_t memory_used() const override { return memory_.device().used(); }
  [[nodiscard]] std::uint64_t memory_limit() const override { return memory_.device().bytes_max(); }
  [[nodiscard]] bool adopt(void* memory, std::size_t bytes) override {
    return memory_.adopt(memory, bytes);
  }
  void disown(void* memory) override { memory_.disown(memory); }

  [[nodiscard]] Status search(std::span<const RunPtr> runs, const QueriesRef& queries,
                              const FoundRef& found) override {
    if (queries.keys.count == 0 || !exec::cuda::is_small_search(queries)) {
      return PoolBackend::search(runs, queries, found);
    }
    BRECCIA_TAKE(auto x, executor());
    return exec::cuda::small_search(*x, refs_of(runs), queries, found);
  }

  Status calibrate() {
    BRECCIA_TAKE(auto x, executor());
    BRECCIA_TAKE(calibration_, exec::cuda::measure(*x));
    return Status::OK();
  }

  /// Errors  IOError: the device was lost earlier, or gives no stream; MemoryLimit.
  Result<Lease> executor() {
    BRECCIA_TRY(memory_.lost());
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<CudaExecutor> executor = std::move(idle_.back());
        idle_.pop_back();
        return Lease(*this, std::move(executor));
      }
    }
    BRECCIA_TAKE(auto executor, CudaExecutor::make(memory_));
    return Lease(*this, std::move(executor));
  }

 private:
  void take_back(std::unique_ptr<CudaExecutor> executor) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(executor));
  }

  const std::string name_;
  exec::cuda::CudaMemory memory_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaExecutor>> idle_;
  exec::Calibration calibration_;
};

/// The device's name, if this program has code for it.
Result<std::string> find_device() {
  int count = 0;
  const Status counted = BRECCIA_CUDA_STATUS(cudaGetDeviceCount(&count));
  if (!counted.ok()) return Status::NotSupported("CUDA finds no device", counted.ToString());
  if (count == 0) return Status::NotSupported("this machine has no CUDA device");
  cudaDeviceProp device;
  BRECCIA_CUDA_TRY(cudaGetDeviceProperties(&device, 0));
  cudaFuncAttributes kernel;
  const Status loaded = BRECCIA_CUDA_STATUS(
      cudaFuncGetAttributes(&kernel, exec::cuda::run_groups<32, 256, algo::Iota>));
  if (!loaded.ok()) {
    return Status::NotSupported(std::string("this build has no code for the ") + device.name,
                                loaded.ToString());
  }
  return std::string(device.name);
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(std::uint64_t memory_bytes_max) {
  // Threads that wait for the device do so for microseconds: they had better spin. A process that
  // uses CUDA already has made its choice, and keeps it.
  (void)BRECCIA_CUDA_STATUS(cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceMapHost));
  BRECCIA_TAKE(std::string name, find_device());
  if (memory_bytes_max == 0) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    BRECCIA_CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
    memory_bytes_max = free_bytes / 4 * 3;
  }
  auto backend = std::make_unique<CudaBackend>(memory_bytes_max, std::move(name));
  BRECCIA_TRY(backend->calibrate());
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace breccia::runs
