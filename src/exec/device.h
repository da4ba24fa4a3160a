#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "exec/calibrate.h"
#include "exec/memory.h"
#include "exec/pool.h"

/// Devices and their tenants.
///
/// A Device is made once for each device and process, and shared by all stores, engines and caches
/// in it. Each of these is a Tenant: it has a pool of its own within a byte budget, and executors.
/// Budgets may add up to more than there is. When the device is full, pools give back what they
/// keep for reuse; then tenants are asked, those first that give most cheaply.

namespace breccia::exec {

enum class DeviceKind { kHost, kCuda, kSimulator, kFake };

/// What it costs a tenant to give memory back, cheapest first.
enum class GiveCost {
  kCopy,   // copies of what lies elsewhere
  kClean,  // what can be built again
  kFlush,  // what must be written to a medium before
};

struct TenantOptions {
  std::string name;
  /// Bytes of device memory, at most; 0: as many as the device has for all.
  std::uint64_t bytes_max = 0;
  GiveCost cost = GiveCost::kFlush;
  /// Threads that wait for a GPU sleep: for calls of milliseconds, whose threads others can use.
  bool waits_asleep = false;
};

/// What a tenant does when it is asked or told. Called on any thread, also while a call of the
/// tenant's own is under way.
struct TenantAnswers {
  /// Asked for memory while another tenant waits for it: gives what it can at once, and may begin
  /// to give more. Null: it gives nothing.
  std::function<void(std::uint64_t bytes)> give;
  /// Told, once, that the device is lost. May be null.
  std::function<void(const Status& why)> lost;
};

class Device;
using DevicePtr = std::shared_ptr<Device>;

/// A tenant's side of a device. It must outlive what lies in its pool.
/// Threads any.
class Tenant {
 public:
  Tenant(DevicePtr device, TenantOptions options)
      : device_(std::move(device)), options_(std::move(options)) {}
  virtual ~Tenant() = default;
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] const DevicePtr& device_ptr() const { return device_; }
  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] GiveCost cost() const { return options_.cost; }
  [[nodiscard]] bool waits_asleep() const { return options_.waits_asleep; }
  [[nodiscard]] virtual Pool& pool() = 0;
  [[nodiscard]] std::uint64_t used() { return pool().used(); }
  [[nodiscard]] std::uint64_t bytes_max() { return pool().bytes_max(); }

  /// From now on `answers` are called; at once, if the device is lost already.
  void answer(TenantAnswers answers);
  /// From now on it is neither asked nor told; waits for a call that is under way.
  void be_left_alone() { answer({}); }

  /// For the device.
  void ask(std::uint64_t bytes);
  void tell_lost(const Status& why);

 private:
  const DevicePtr device_;
  const TenantOptions options_;
  std::recursive_mutex mutex_;  // an answer may fail on the device, and be told of it
  TenantAnswers answers_;
  std::atomic<bool> listens_{false};  // to losses: who does not must not be waited for
};
using TenantPtr = std::shared_ptr<Tenant>;

/// What algorithms run on: the host's cores, a GPU, the simulator, or a fake GPU for tests.
/// Threads any.
class Device : public std::enable_shared_from_this<Device> {
 public:
  Device(DeviceKind kind, int number, std::uint64_t memory_limit)
      : kind_(kind), number_(number), memory_limit_(memory_limit) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] DeviceKind kind() const { return kind_; }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_host() const { return kind_ == DeviceKind::kHost; }
  /// True if the host reads the device's memory where it lies.
  [[nodiscard]] bool host_reads() const {
    return kind_ == DeviceKind::kHost || kind_ == DeviceKind::kSimulator;
  }
  /// One line for people: what runs where.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Memory of the host that the device reaches at full speed (pinned where there is a bus). Of a
  /// lost device: ordinary memory.
  [[nodiscard]] virtual HostMemory& host_memory() = 0;
  [[nodiscard]] virtual const Calibration& calibration() const = 0;

  /// Makes memory that others allocated (a mapped log) reachable for the device; false if it must
  /// be fed through staging instead. A no-op that says true where there is no bus.
  [[nodiscard]] virtual bool adopt(void* memory, std::size_t bytes) = 0;
  virtual void disown(void* memory) = 0;
  /// True if it reads and writes that memory of the host where it lies: its own, or adopted. Other
  /// memory goes through staging.
  [[nodiscard]] virtual bool reaches(const void* memory, std::size_t bytes) const = 0;

  /// Takes a tenant in.
  /// Errors  the loss of the device.
  Result<TenantPtr> admit(TenantOptions options);

  /// Bytes of device memory that tenants hold, kept blocks included, and their limit.
  [[nodiscard]] std::uint64_t memory_held() const { return held_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t memory_limit() const { return memory_limit_; }

  /// For pools: books `bytes` more, asking the other tenants for them if need be. False: there are
  /// none.
  /// Order   while somebody asks, others who want more wait, and are served in order of arrival:
  ///         what was given for a large block does not go to small ones that come later.
  /// Threads the caller holds no lock that an answer of a tenant's takes, a pool's neither.
  [[nodiscard]] bool claim(std::uint64_t bytes, const Pool& asking);
  void unclaim(std::uint64_t bytes);

  /// For executors: the device does nothing any more. Tells every tenant; the first cause counts.
  void lose(const Status& why);
  /// That cause, or OK.
  [[nodiscard]] Status lost() const;
  [[nodiscard]] bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }

 protected:
  [[nodiscard]] virtual TenantPtr make_tenant(TenantOptions options) = 0;

 private:
  [[nodiscard]] bool book(std::uint64_t bytes);
  [[nodiscard]] bool ask_for(std::uint64_t bytes, const Pool& asking);
  [[nodiscard]] std::vector<TenantPtr> tenants() const;

  const DeviceKind kind_;
  const int number_;
  const std::uint64_t memory_limit_;
  std::atomic<std::uint64_t> held_{0};
  std::mutex line_mutex_;  // guards the two numbers of places
  std::condition_variable line_moves_;
  std::uint64_t line_begin_ = 0;           // whose turn it is
  std::uint64_t line_end_ = 0;             // the next place
  std::atomic<std::uint64_t> in_line_{0};  // who waits or asks
  std::atomic<bool> is_lost_{false};
  mutable std::mutex mutex_;  // guards what follows
  mutable std::vector<std::weak_ptr<Tenant>> tenants_;
  Status lost_;
};

/// A pool whose bytes are booked with its device. `Raw` is the pool of the device's memory.
template <class Raw>
class TenantPool final : public Raw {
 public:
  template <class... Arguments>
  TenantPool(Device& device, const Arguments&... arguments) : Raw(arguments...), device_(device) {}
  ~TenantPool() override { this->drop_kept(); }

 protected:
  void* raw_allocate(std::size_t bytes) override {
    if (!device_.claim(bytes, *this)) return nullptr;
    void* const memory = Raw::raw_allocate(bytes);
    if (memory == nullptr) device_.unclaim(bytes);
    return memory;
  }
  void raw_release(void* memory, std::size_t bytes) override {
    Raw::raw_release(memory, bytes);
    device_.unclaim(bytes);
  }

 private:
  Device& device_;
};

/// The device of that kind (host or CUDA) and number; every caller gets the same one.
/// Errors  NotSupported: there is none, or the build has no code for it; IOError: it is lost.
Result<DevicePtr> open_device(DeviceKind kind, int number);

/// While it lives, the CUDA device of that number is what `make` makes: for tests.
class InstalledDevice {
 public:
  InstalledDevice(int number, std::function<DevicePtr()> make);
  ~InstalledDevice();
  InstalledDevice(const InstalledDevice&) = delete;
  InstalledDevice& operator=(const InstalledDevice&) = delete;

 private:
  const int number_;
};

/// CUDA's device of that number.
/// Errors  NotSupported.
Result<DevicePtr> make_cuda_device(int number);

}  // namespace breccia::exec
