#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/cuda_executor.cuh"
#include "exec/cuda/cuda_memory.h"
#include "exec/device.h"

namespace breccia::exec::cuda {

/// One GPU, by CUDA's number: its memory, the host memory that it reaches, and what it can do.
class CudaDevice final : public Device {
 public:
  CudaDevice(int number, std::uint64_t memory_limit, std::string name);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] HostMemory& host_memory() override { return host_memory_; }
  [[nodiscard]] const Calibration& calibration() const override { return calibration_; }
  [[nodiscard]] bool adopt(void* memory, std::size_t bytes) override {
    const OnDevice here(number());
    return ranges_.pin(memory, bytes);
  }
  /// Memory that could not be adopted is disowned like any other.
  void disown(void* memory) override { ranges_.unpin(memory); }
  [[nodiscard]] bool reaches(const void* memory, std::size_t bytes) const override {
    return bytes == 0 || ranges_.find(memory, bytes) != nullptr;
  }

  [[nodiscard]] PinnedPool& pinned() { return host_memory_.pool; }
  [[nodiscard]] const HostRanges& ranges() const { return ranges_; }
  /// Errors  IOError, MemoryLimit.
  Status calibrate();

 private:
  struct PinnedMemory final : HostMemory {
    PinnedMemory(int number, HostRanges& ranges, const Device& device)
        : number(number), pool(~std::uint64_t{0} / 2, ranges, device) {}
    [[nodiscard]] void* allocate(std::size_t bytes) override {
      const OnDevice here(number);
      return pool.allocate(bytes);
    }
    void release(void* memory, std::size_t bytes) override { pool.release(memory, bytes); }
    [[nodiscard]] bool is_beside_device() const override { return true; }
    [[nodiscard]] Status copy_rows(BusWay way, const BusRows& rows, void* stream) override;
    const int number;
    PinnedPool pool;
  };

  [[nodiscard]] TenantPtr make_tenant(TenantOptions options) override;

  const std::string name_;
  HostRanges ranges_;
  PinnedMemory host_memory_;
  Calibration calibration_;
};

/// A tenant of a GPU: its part of the memory, and executors that wait for the next call.
class CudaTenant final : public Tenant {
 public:
  /// An executor that is at work when its call has ended; the tenant gets it back.
  /// Threads one at a time, of any; finish() comes before its end.
  class Parked {
   public:
    Parked(CudaTenant& tenant, std::unique_ptr<CudaExecutor> executor)
        : tenant_(&tenant), executor_(std::move(executor)) {}
    Parked(Parked&&) noexcept = default;
    Parked& operator=(Parked&&) noexcept = default;
    ~Parked() {
      if (executor_ != nullptr) tenant_->take_back(std::move(executor_));
    }
    [[nodiscard]] bool is_done() const {
      const OnDevice here(tenant_->device().number());
      return executor_->is_done();
    }
    Status finish() {
      const OnDevice here(tenant_->device().number());
      return executor_->finish();
    }
    [[nodiscard]] const std::uint64_t* words() const { return executor_->words(); }

   private:
    CudaTenant* tenant_;
    std::unique_ptr<CudaExecutor> executor_;
  };

  /// An executor for one call; the tenant gets it back. The GPU is the thread's current one.
  class Lease {
   public:
    Lease(CudaTenant& tenant, OnDevice here, std::unique_ptr<CudaExecutor> executor)
        : here_(std::move(here)), tenant_(&tenant), executor_(std::move(executor)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (executor_ != nullptr) tenant_->take_back(std::move(executor_));
    }
    CudaExecutor& operator*() const { return *executor_; }
    CudaExecutor* operator->() const { return executor_.get(); }
    /// Leaves it at work. From here on the lease has none.
    [[nodiscard]] Parked park() { return {*tenant_, std::move(executor_)}; }

   private:
    OnDevice here_;
    CudaTenant* tenant_;
    std::unique_ptr<CudaExecutor> executor_;
  };

  CudaTenant(DevicePtr device, TenantOptions options, std::uint64_t bytes_max)
      : Tenant(std::move(device), std::move(options)),
        pool_(this->device(), this->device().number(), bytes_max) {}
  ~CudaTenant() override;

  [[nodiscard]] Pool& pool() override { return pool_; }
  /// Errors  IOError: the device was lost earlier, or gives no stream; MemoryLimit.
  Result<Lease> executor();

 private:
  void take_back(std::unique_ptr<CudaExecutor> executor);

  TenantPool<DevicePool> pool_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaExecutor>> idle_;
};

}  // namespace breccia::exec::cuda
