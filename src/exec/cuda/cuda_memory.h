#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "exec/device.h"
#include "exec/pool.h"

namespace breccia::exec::cuda {

/// Makes a device the calling thread's current one; the one before it comes back at the end.
class OnDevice {
 public:
  explicit OnDevice(int number);
  OnDevice(OnDevice&& other) noexcept : before_(std::exchange(other.before_, kNone)) {}
  OnDevice& operator=(OnDevice&&) = delete;
  ~OnDevice();

 private:
  static constexpr int kNone = -1;
  int before_ = kNone;
};

/// Memory of one device: plain allocations, never managed ones.
class DevicePool : public Pool {
 public:
  DevicePool(int device, std::uint64_t bytes_max) : Pool(bytes_max), device_(device) {}
  ~DevicePool() override { drop_kept(); }

 protected:
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* memory, std::size_t bytes) override;

 private:
  const int device_;
};

/// The ranges of host memory that the device reaches, with their addresses there.
/// Threads any.
class HostRanges {
 public:
  /// Pins and maps memory that others allocated. False if the system cannot, or if some of it is
  /// pinned already: the driver takes that for an error of the program's.
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
  [[nodiscard]] bool overlaps(const void* memory, std::size_t bytes) const;

  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;
};

/// Pinned host memory, mapped for the device; ordinary memory once `device` is lost, so that what
/// was made before can grow and end.
/// Cost    a block that no class keeps is touched by the calling thread, 0.2 ms a MiB with huge
///         pages and 0.6 without, before the driver sees it: pinning what is there is short.
///         cudaHostAlloc takes 0.4 ms a MiB and lets every other call of the driver wait meanwhile.
class PinnedPool : public Pool {
 public:
  PinnedPool(std::uint64_t bytes_max, HostRanges& ranges, const Device& device)
      : Pool(bytes_max, &host_allowance(), kPage), ranges_(ranges), device_(device) {}
  ~PinnedPool() override { drop_kept(); }

 protected:
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* memory, std::size_t bytes) override;

 private:
  static constexpr std::size_t kPage = 4096;
  HostRanges& ranges_;
  const Device& device_;
};

}  // namespace breccia::exec::cuda
