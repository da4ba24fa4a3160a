#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "slab/backend.h"

namespace breccia::slab {

/// The table of a store, on a device or on the host.
/// Threads as Backend.
class TableOn {
 public:
  struct Ground {
    exec::DevicePtr device;
    std::uint64_t device_bytes_max = 0;  // 0: no bound; of a GPU's memory
    std::uint64_t host_bytes_max = 0;    // likewise, of the host's
    std::uint64_t keys_expected = 0;
  };
  /// Requests of one run(), at most: some 100 MiB of columns.
  static constexpr std::uint64_t kRequestsAtOnce = 4 << 20;

  /// An empty one, with a secret of its own.
  /// Errors  MemoryLimit; IOError: the device.
  static Result<TableOn> make(const Ground& ground);

  /// As Backend::run. IOError, and no MemoryLimit, of a device that is lost: it may call itself
  /// full.
  [[nodiscard]] Status run(const hash::RequestsRef& requests) const;

  [[nodiscard]] const exec::Device& device() const { return backend_->device(); }
  [[nodiscard]] Table::Figures figures() const { return table_->figures(); }

 private:
  TableOn(std::shared_ptr<Backend> backend, TablePtr table)
      : backend_(std::move(backend)), table_(std::move(table)) {}

  std::shared_ptr<Backend> backend_;
  TablePtr table_;
};

}  // namespace breccia::slab
