#pragma once

#include <breccia/options.h>

#include <atomic>

#include "exec/fake/fake_device.h"

namespace breccia::testing {

/// A fake GPU that stores can be opened on, by a number of its own.
/// Threads any. It outlives the stores on it.
class FakeGpu {
 public:
  explicit FakeGpu(std::uint64_t memory_limit = 1ULL << 30)
      : number_(next_number()), installed_(number_, [this, memory_limit] {
          return exec::fake::make_fake_device(&faults, memory_limit);
        }) {}

  /// Of the device; a new device has the same.
  exec::FakeFaults faults;

  [[nodiscard]] int number() const { return number_; }
  /// Lets a store be opened on it.
  void use(StoreOptions* options) const {
    options->backend = BackendChoice::kAuto;
    options->device = number_;
  }

 private:
  /// Behind those that machines have.
  static int next_number() {
    static std::atomic<int> next{1000};
    return next++;
  }

  const int number_;
  exec::InstalledDevice installed_;
};

}  // namespace breccia::testing
