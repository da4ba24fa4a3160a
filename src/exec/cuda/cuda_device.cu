#include "exec/cuda/cuda_device.cuh"

#include "exec/cuda/cuda_calibrate.cuh"
#include "exec/cuda/cuda_error.h"

namespace breccia::exec {

namespace cuda {

CudaDevice::CudaDevice(int number, std::uint64_t memory_limit, std::string name)
    : Device(DeviceKind::kCuda, number, memory_limit),
      name_(std::move(name)),
      host_memory_(number, ranges_, *this) {}

std::string CudaDevice::describe() const {
  return "CUDA backend on " + name_ + (number() == 0 ? "" : " " + std::to_string(number())) +
         " with " + std::to_string(memory_limit() >> 20) + " MiB";
}

TenantPtr CudaDevice::make_tenant(TenantOptions options) {
  const std::uint64_t bytes_max = options.bytes_max;
  return std::make_shared<CudaTenant>(shared_from_this(), std::move(options), bytes_max);
}

Status CudaDevice::calibrate() {
  BRECCIA_TAKE(const TenantPtr tenant, admit({.name = "calibration"}));
  BRECCIA_TAKE(auto x, static_cast<CudaTenant&>(*tenant).executor());
  BRECCIA_TAKE(calibration_, measure(*this, *x));
  return Status::OK();
}

CudaTenant::~CudaTenant() {
  const OnDevice here(device().number());
  idle_.clear();
}

Result<CudaTenant::Lease> CudaTenant::executor() {
  BRECCIA_TRY(device().lost());
  OnDevice here(device().number());
  // What a call of the user's has left behind on this thread is no failure of ours.
  (void)cudaGetLastError();
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<CudaExecutor> executor = std::move(idle_.back());
      idle_.pop_back();
      return Lease(*this, std::move(here), std::move(executor));
    }
  }
  BRECCIA_TAKE(auto executor,
               CudaExecutor::make(static_cast<CudaDevice&>(device()), pool_, waits_asleep()));
  return Lease(*this, std::move(here), std::move(executor));
}

void CudaTenant::take_back(std::unique_ptr<CudaExecutor> executor) {
  BRECCIA_ASSERT(!executor->is_away());
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(executor));
}

Status CudaDevice::PinnedMemory::copy_rows(BusWay way, const BusRows& rows, void* stream) {
  const OnDevice here(number);
  const auto on = static_cast<cudaStream_t>(stream);
  if (way == BusWay::kToHost) {
    BRECCIA_CUDA_TRY(cudaMemcpy2DAsync(rows.host, rows.width, rows.device, rows.stride, rows.width,
                                       rows.count, cudaMemcpyDeviceToHost, on));
  } else {
    BRECCIA_CUDA_TRY(cudaMemcpy2DAsync(rows.device, rows.stride, rows.host, rows.width, rows.width,
                                       rows.count, cudaMemcpyHostToDevice, on));
  }
  return BRECCIA_CUDA_STATUS(cudaStreamSynchronize(on));
}

namespace {

struct Nothing {
  template <class Group>
  __device__ void operator()(const Group&, std::uint64_t) const {}
};

/// The device's name, if this program has code for it.
Result<std::string> find_device(int number) {
  int count = 0;
  const Status counted = BRECCIA_CUDA_STATUS(cudaGetDeviceCount(&count));
  if (!counted.ok()) return Status::NotSupported("CUDA finds no device", counted.ToString());
  if (count == 0) return Status::NotSupported("this machine has no CUDA device");
  if (number < 0 || number >= count) {
    return Status::NotSupported("there is no CUDA device " + std::to_string(number),
                                "this machine has " + std::to_string(count) + ", from 0 on");
  }
  cudaDeviceProp device;
  BRECCIA_CUDA_TRY(cudaGetDeviceProperties(&device, number));
  const OnDevice here(number);
  cudaFuncAttributes kernel;
  const Status loaded =
      BRECCIA_CUDA_STATUS(cudaFuncGetAttributes(&kernel, run_groups<32, 256, Nothing>));
  if (!loaded.ok()) {
    return Status::NotSupported(std::string("this build has no code for the ") + device.name,
                                loaded.ToString());
  }
  return std::string(device.name);
}

}  // namespace

}  // namespace cuda

Result<DevicePtr> make_cuda_device(int number) {
  BRECCIA_TAKE(std::string name, cuda::find_device(number));
  const cuda::OnDevice here(number);
  // Threads that wait for the device do so for microseconds: they had better spin. A process that
  // uses CUDA already has made its choice, and keeps it.
  (void)BRECCIA_CUDA_STATUS(cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceMapHost));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  BRECCIA_CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
  auto device = std::make_shared<cuda::CudaDevice>(number, free_bytes / 4 * 3, std::move(name));
  BRECCIA_TRY(device->calibrate());
  return DevicePtr(std::move(device));
}

}  // namespace breccia::exec
