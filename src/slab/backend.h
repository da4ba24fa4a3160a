#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "exec/device.h"
#include "slab/refs.h"

/// The verbs on tables of chained slabs. What happens inside is one source (slab/algo/), compiled
/// for the host, for CUDA and for the simulator.

namespace breccia::slab {

struct TableOptions {
  /// Keys that it has room for without growing; it grows by itself.
  std::uint64_t keys_expected = 0;
  /// Memory that it may take, of the backend's own. What it needs beyond that lies in memory of the
  /// host, if the backend reaches that, up to host_bytes_max; what is hot of it comes up to where
  /// the backend has memory left.
  std::uint64_t bytes_max = ~std::uint64_t{0};
  std::uint64_t host_bytes_max = ~std::uint64_t{0};
  /// Lanes that work on one request: 4, 8 or 16.
  int lanes = 4;
  /// A request gives up when it has found its bucket locked, or changed, so often. Where so many of
  /// a batch have, and one of a thousand, those of one key are done together at once
  /// (hash/combine.h), not only behind some tries more.
  int tries_max = 8;
  std::uint64_t combined_min = 64;
  /// A bucket of more keys than that, on average, is one of too few. Tests have longer chains.
  std::uint64_t keys_of_bucket = 20;
  /// Requests for each head, behind which hot ones of the host's memory come up; 0: none does.
  std::uint64_t requests_of_head = 128;
  /// Not Secret(): the factor is odd, and not 1.
  Secret secret;
};

/// A table in a backend's memory, freed at its end.
/// Threads any; while batches run its figures may be of before or after them.
class Table {
 public:
  struct Figures {
    std::uint64_t keys = 0;
    std::uint64_t buckets = 0;
    std::uint64_t chained = 0;       // slabs behind heads, those with nothing in them among them
    std::uint64_t chained_free = 0;  // these
    std::uint64_t bytes = 0;
    std::uint64_t host_bytes = 0;
    std::uint64_t reserve = 0;  // slabs of the backend's memory that are for heads of the host's
    std::uint64_t risen = 0;    // heads that came there because they were hot
  };

  explicit Table(const TableOptions& options) : options_(options) {}
  virtual ~Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  [[nodiscard]] const TableOptions& options() const { return options_; }
  [[nodiscard]] virtual Figures figures() const = 0;

 private:
  const TableOptions options_;
};
using TablePtr = std::shared_ptr<Table>;

/// Keys with their values, as they lie.
struct Contents {
  std::vector<std::uint64_t> key;
  std::vector<std::uint64_t> value;
};

/// The verbs on tables, for one tenant of a device.
/// Threads any number, of all calls.
class Backend {
 public:
  explicit Backend(exec::TenantPtr tenant) : tenant_(std::move(tenant)) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] exec::Tenant& tenant() const { return *tenant_; }
  [[nodiscard]] const exec::TenantPtr& tenant_ptr() const { return tenant_; }
  [[nodiscard]] exec::Device& device() const { return tenant_->device(); }

  /// An empty table.
  /// Errors  MemoryLimit; IOError: the device.
  [[nodiscard]] virtual Result<TablePtr> make_table(const TableOptions& options) = 0;

  /// Runs requests whose columns lie in host memory.
  /// Order   requests of one batch on one key, and batches that run at once, take effect in some
  ///         order, each at one moment before this returns.
  /// Errors  InvalidArgument: 2^32 requests or more; MemoryLimit: nothing was done. Others, once
  ///         something may have been changed: every call from then on says the same.
  ///         Of a request: Code::kNoRoom, if there is no memory for its key.
  /// Cost    the columns over the bus, a kernel, a wait; where keys are put, some bytes more, and
  ///         in a full table kernels that split a part of its buckets.
  [[nodiscard]] virtual Status run(Table& table, const RequestsRef& requests) = 0;
  /// The same for columns in the backend's memory.
  [[nodiscard]] virtual Status run_here(Table& table, const RequestsRef& requests) = 0;

  /// All keys, in no order, as of one moment.
  /// Errors  MemoryLimit; IOError: the device.
  [[nodiscard]] virtual Result<Contents> read(Table& table) = 0;

 private:
  const exec::TenantPtr tenant_;
};

/// Takes the verbs in as a tenant of `device`.
/// Errors  the loss of the device.
Result<std::shared_ptr<Backend>> make_backend(const exec::DevicePtr& device,
                                              exec::TenantOptions options);

}  // namespace breccia::slab
