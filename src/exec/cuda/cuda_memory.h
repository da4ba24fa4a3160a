#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "base/result.h"
#include "exec/memory.h"
#include "exec/pool.h"

namespace breccia::exec::cuda {

/// Device memory: plain allocations, never managed ones.
class DevicePool : public Pool {
 public:
  using Pool::Pool;
  ~DevicePool() override { drop_kept(); }

 protected:
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* memory, std::size_t bytes) override;
};

/// The ranges of host memory that the device reaches, with their addresses there.
/// Threads any.
class HostRanges {
 public:
  /// Pins and maps memory that others allocated. False if the system cannot.
  [[nodiscard]] bool pin(void* memory, std::size_t bytes);
  /// Undoes it; nothing if the range is not pinned.
  void unpin(void* memory);
  /// The device's address of host memory [memory, memory + bytes), or null.
  [[nodiscard]] void* find(const void* memory, std::size_t bytes) const;

 private:
  struct Range {
    std::size_t bytes;
    std::byte* on_device;
  };
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;
};

/// Pinned host memory, mapped for the device.
/// Cost    a block that no class keeps is touched by the calling thread, 0.2 ms a MiB with huge
///         pages and 0.6 without, before the driver sees it: pinning what is there is short.
///         cudaHostAlloc takes 0.4 ms a MiB and lets every other call of the driver wait meanwhile.
class PinnedPool : public Pool {
 public:
  PinnedPool(std::uint64_t bytes_max, HostRanges& ranges)
      : Pool(bytes_max, host_bytes_kept(), kPage), ranges_(ranges) {}
  ~PinnedPool() override { drop_kept(); }

 protected:
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* memory, std::size_t bytes) override;

 private:
  static constexpr std::size_t kPage = 4096;
  HostRanges& ranges_;
};

/// What all executors of a CUDA backend share.
class CudaMemory : public HostMemory {
 public:
  explicit CudaMemory(std::uint64_t device_bytes_max)
      : device_(device_bytes_max), pinned_(~std::uint64_t{0} / 2, ranges_) {}

  [[nodiscard]] void* allocate(std::size_t bytes) override { return pinned_.allocate(bytes); }
  void release(void* memory, std::size_t bytes) override { pinned_.release(memory, bytes); }

  [[nodiscard]] DevicePool& device() { return device_; }
  [[nodiscard]] const DevicePool& device() const { return device_; }
  [[nodiscard]] PinnedPool& pinned() { return pinned_; }
  [[nodiscard]] const HostRanges& ranges() const { return ranges_; }

  /// Maps memory that others allocated; false if the system cannot (files of most file systems).
  [[nodiscard]] bool adopt(void* memory, std::size_t bytes);
  void disown(void* memory);

  /// Remembers an error after which the device does nothing any more. The first one counts.
  void lose(const Status& status);
  /// That error, or OK.
  [[nodiscard]] Status lost() const;

 private:
  HostRanges ranges_;
  DevicePool device_;
  PinnedPool pinned_;
  std::atomic<bool> is_lost_{false};
  mutable std::mutex mutex_;
  Status lost_;
};

}  // namespace breccia::exec::cuda
