#include "exec/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <iterator>
#include <new>

#include "base/assert.h"
#include "base/bytes.h"
#include "exec/cuda/cuda_error.h"
#include "exec/host/host_memory.h"

namespace breccia::exec::cuda {

namespace {

/// For calls whose failure is an answer (null, false) or cannot be helped (giving back).
bool succeeds(cudaError_t error) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}

}  // namespace

OnDevice::OnDevice(int number) {
  int current = number;
  if (succeeds(cudaGetDevice(&current)) && current == number) return;
  if (succeeds(cudaSetDevice(number))) before_ = current;
}

OnDevice::~OnDevice() {
  if (before_ != kNone) (void)succeeds(cudaSetDevice(before_));
}

void* DevicePool::raw_allocate(std::size_t bytes) {
  const OnDevice here(device_);
  void* memory = nullptr;
  return succeeds(cudaMalloc(&memory, bytes)) ? memory : nullptr;
}

// A lost device cannot take memory back; it has none any more.
void DevicePool::raw_release(void* memory, std::size_t) {
  const OnDevice here(device_);
  (void)succeeds(cudaFree(memory));
}

bool HostRanges::pin(void* memory, std::size_t bytes) {
  if (overlaps(memory, bytes)) return false;
  if (!succeeds(
          cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped))) {
    return false;
  }
  void* on_device = nullptr;
  if (!succeeds(cudaHostGetDevicePointer(&on_device, memory, 0))) {
    (void)succeeds(cudaHostUnregister(memory));
    return false;
  }
  const Range range{bytes, static_cast<std::byte*>(on_device)};
  try {
    const std::unique_lock lock(mutex_);
    const bool is_new = ranges_.emplace(reinterpret_cast<std::uintptr_t>(memory), range).second;
    BRECCIA_ASSERT(is_new);
  } catch (const std::bad_alloc&) {
    (void)succeeds(cudaHostUnregister(memory));
    return false;
  }
  return true;
}

void HostRanges::unpin(void* memory) {
  {
    const std::unique_lock lock(mutex_);
    if (ranges_.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) return;
  }
  (void)succeeds(cudaHostUnregister(memory));
}

bool HostRanges::overlaps(const void* memory, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::shared_lock lock(mutex_);
  const auto behind = ranges_.lower_bound(address + bytes);
  if (behind == ranges_.begin()) return false;
  const auto& [begin, range] = *std::prev(behind);
  return begin + range.bytes > address;
}

void* HostRanges::find(const void* memory, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::shared_lock lock(mutex_);
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  const auto& [begin, range] = *std::prev(after);
  const std::uintptr_t offset = address - begin;
  if (offset >= range.bytes || bytes > range.bytes - offset) return nullptr;
  return range.on_device + offset;
}

void* PinnedPool::raw_allocate(std::size_t bytes) {
  const std::size_t size = base::round_up(bytes, kPage);  // no two blocks share what is pinned
  void* const memory = host::take_memory(size, kPage);
  if (memory == nullptr) return nullptr;
  for (std::size_t i = 0; i < size; i += kPage) static_cast<volatile char*>(memory)[i] = 0;
  if (ranges_.pin(memory, size) || device_.is_lost()) return memory;
  std::free(memory);
  return nullptr;
}

void PinnedPool::raw_release(void* memory, std::size_t) {
  ranges_.unpin(memory);
  std::free(memory);
}

}  // namespace breccia::exec::cuda
