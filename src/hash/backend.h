#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "exec/device.h"
#include "hash/ids/ids.h"
#include "hash/refs.h"

/// The verbs on hash tables. What happens inside is one source (hash/algo/), compiled for the host,
/// for CUDA and for the simulator.

namespace breccia::hash {

struct TableOptions {
  /// Slots to begin with, at least; rounded up to whole buckets, two at least.
  std::uint64_t slots_min = 0;
  /// Slots that it may grow to, by doubling. As it is if that is less than twice as many.
  std::uint64_t slots_max = 0;
  /// Buckets that a batch that writes moves at least, while the table grows: half a MiB of it.
  /// Other batches wait as long as that takes. A batch of n requests moves n / 2 at least.
  std::uint64_t moved_min = 4096;
  /// Bytes of a key, 4 to 64, and of a value, a multiple of 8 up to 4096. Where one of them is not
  /// 8, values, and keys of another size, lie in rows beside the table, of which it has `rows`,
  /// below 2^32; a batch takes one for each of its requests while it runs, unless all of it, by
  /// RequestsRef::all, finds or deletes.
  std::uint64_t key_bytes = 8;
  std::uint64_t value_bytes = 8;
  std::uint64_t rows = 0;
  /// Lanes that work on one request: 1, 4 or 8.
  int lanes = 4;
  /// A request gives up when others have changed its key so often under its eyes. Where so many
  /// of a batch have, those of one key are done together at once (combine.h), not only behind some
  /// tries more.
  int tries_max = 4;
  std::uint64_t combined_min = 1024;
  /// Not Secret(): factors are odd, and not 1.
  Secret secret;
  /// Bits that hashes of keys in rows may have. Tests take some away, so that keys share hashes.
  std::uint64_t hash_mask = ~std::uint64_t{0};

  [[nodiscard]] bool keys_in_rows() const { return key_bytes != sizeof(std::uint64_t); }
  [[nodiscard]] bool has_rows() const {
    return keys_in_rows() || value_bytes != sizeof(std::uint64_t);
  }
};

/// A table in a backend's memory, freed at its end.
/// Threads any; while batches run its figures may be of before or after them.
class Table {
 public:
  explicit Table(const TableOptions& options) : options_(options) {}
  virtual ~Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  [[nodiscard]] const TableOptions& options() const { return options_; }
  /// Of what it grows into, if it grows.
  [[nodiscard]] virtual std::uint64_t slot_count() const = 0;
  [[nodiscard]] virtual std::uint64_t memory_bytes() const = 0;
  /// How often it grew.
  [[nodiscard]] virtual std::uint64_t growths() const = 0;
  /// Rows without a value, those among them that calls under way may still look at.
  [[nodiscard]] virtual std::uint64_t rows_free() const = 0;
  /// Whether keys are still in the smaller table that it grew out of.
  [[nodiscard]] virtual bool is_growing() const = 0;

 private:
  const TableOptions options_;
};
using TablePtr = std::shared_ptr<Table>;

/// A table as it lies. The pointers of `tables` are those of the columns here.
struct TableImage {
  std::vector<Pair> pairs, old_pairs;
  std::vector<std::uint32_t> maps, old_maps;  // was_full, and is_full behind it
  std::vector<char> rows;  // by number, as algo::RowShape has them; none if all is in the slots
  GrowingRef tables;
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
  /// Errors  InvalidArgument: more than 2^48 slots, or keys, values and rows that are none of
  ///         TableOptions'; MemoryLimit: no memory for it; IOError: the device.
  [[nodiscard]] virtual Result<TablePtr> make_table(const TableOptions& options) = 0;

  /// Runs requests whose columns lie in host memory.
  /// Order   requests of one batch on one key, and batches that run at once, take effect in some
  ///         order, each at one moment before this returns.
  /// Errors  InvalidArgument: 2^32 requests or more; MemoryLimit: nothing was done. Others, once
  ///         a slot may have been changed: every call from then on says the same.
  ///         Of a request: Code::kNoRoom, if the table may not grow, or there is no memory for it.
  /// Cost    the columns over the bus, a kernel, two waits; where insertions found no room, kernels
  ///         more during which other batches wait; while the table grows, kernels that move a part
  ///         of it.
  [[nodiscard]] virtual Status run(Table& table, const RequestsRef& requests) = 0;
  /// The same for columns in the backend's memory.
  /// Cost    no bus; of finds alone one wait.
  [[nodiscard]] virtual Status run_here(Table& table, const RequestsRef& requests) = 0;
  /// The same two for tables with rows.
  /// Shape   2^31 requests at most; values at multiples of 8 bytes; no kRaise and kDrop, which
  ///         compare values in slots.
  /// Errors  MemoryLimit also where there are fewer rows than the batch may need.
  /// Cost    two kernels more, which copy values, and one that says which rows are free. Of finds
  ///         alone, where keys lie in rows: none, unless the table grows.
  [[nodiscard]] virtual Status run_values(Table& table, const ValueRequestsRef& requests) = 0;
  [[nodiscard]] virtual Status run_values_here(Table& table, const ValueRequestsRef& requests) = 0;

  // ---- keys of 8 bytes in the backend's memory, of whose rows a table has payloads ----

  /// A lookup of rows whose columns lie in the backend's memory, and outlast it.
  [[nodiscard]] virtual std::unique_ptr<RowLookup> make_lookup(const RowSources& from,
                                                               const RowsOutRef& rows) = 0;
  /// A lookup of the rows that a cache has, whose look() returns while it is under way: what the
  /// ids' stream is given from then on finds them there. found[i] of others is 0, and `missing`
  /// lists them, if its missing_count is not null. bring() brings nothing.
  /// Shape   as make_lookup; the cache lasts until then, or waits for it at its end.
  /// Order   each id at a moment of its own, not before this is called.
  /// Cost    four kernels, with `missing` three more and a selection. Making one waits for the
  ///         first of sixteen that are under way, or for all, while somebody takes rows into the
  ///         cache who could not for long. Sections of the table wait for what the stream had to
  ///         do before.
  [[nodiscard]] virtual std::unique_ptr<RowLookup> make_begun_lookup(
      Cache& cache, const RowsOutRef& rows, const MissingListRef& missing) = 0;
  /// The address by which kernels read memory of the host that the device has adopted
  /// (exec::Device) or that is its own; null: they cannot.
  [[nodiscard]] virtual const char* reach(char* host) = 0;
  /// A number that lies in the backend's memory, behind what `stream` has to do.
  /// Errors  IOError: the device; MemoryLimit.
  /// Cost    a wait.
  [[nodiscard]] virtual Result<std::uint64_t> read_number(const std::uint64_t* at,
                                                          void* stream) = 0;
  /// Lists those that were not found. Columns lie in the backend's memory.
  /// Order   done on return.
  /// Errors  MemoryLimit; IOError: the device.
  /// Cost    three kernels, a selection, a wait; 9 bytes of work space each.
  [[nodiscard]] virtual Status list_missing(const MissingListRef& list) = 0;
  /// An empty cache that takes so many bytes at most, of a tenant of its own.
  /// Errors  InvalidArgument: rows of no multiple of 8 bytes; MemoryLimit; IOError: the device.
  [[nodiscard]] virtual Result<CachePtr> make_cache(std::uint64_t row_bytes,
                                                    std::uint64_t bytes_max,
                                                    RowCachePolicy policy) = 0;
  /// Pins of a cache that this backend has made, none to begin with.
  [[nodiscard]] virtual std::unique_ptr<Pins> make_pins(const CachePtr& cache) = 0;
  /// A lookup of rows of the size that the pins' cache has, which come into the cache, if they are
  /// not in it, and are pinned when bring() returns. It may be asked again, of what ids have then.
  /// Shape   the ids lie in the backend's memory, and outlast it, as the pins do.
  /// Cost    also: work space for the rows, and for the first one a bit for each row of the cache;
  ///         of bring() a section of the cache and nine kernels, of which the last ones mostly find
  ///         nothing to do.
  [[nodiscard]] virtual std::unique_ptr<RowLookup> make_pin_lookup(Pins& pins,
                                                                   const IdsRef& ids) = 0;
  /// Makes records of ids and rows.
  /// Order   done on return: the columns are not needed any more.
  /// Errors  MemoryLimit; IOError: the device.
  [[nodiscard]] virtual Result<std::unique_ptr<RowRecords>> write_records(
      const RowsInRef& rows) = 0;
  /// Raises the keys of records to their payloads, the first of which is given, as they lie.
  /// *absent: keys that were not there before.
  /// Errors  as run_here; MemoryLimit also where some found no room.
  [[nodiscard]] virtual Status raise_records(Table& table, RowRecords& records,
                                             std::uint64_t first_payload,
                                             std::uint64_t* absent) = 0;
  /// What writes rows of records that were raised over those of before that a cache of such rows
  /// has; the others are not in it, as before. While lookups are under way that nobody waits for
  /// bring() does nothing, unless rows are pinned: then it waits for those.
  /// Shape   the rows of write_records(), as they were then; all outlast it.
  /// Cost    a kernel and a wait, and where an id is there twice the same once more.
  [[nodiscard]] virtual std::unique_ptr<RowLookup> make_renewal(Cache& cache,
                                                                const RowRecords& records,
                                                                const RowsInRef& rows) = 0;
  /// Takes out the keys of deletions, of which the table has nothing newer. *gone: how many were
  /// there.
  /// Errors  as run_here.
  [[nodiscard]] virtual Status drop_records(Table& table, RowRecords& records,
                                            std::uint64_t* gone) = 0;

  /// Copies bytes to the backend's memory (that of tenant().pool()), and from there.
  /// Order   done on return.
  /// Errors  MemoryLimit; IOError: the device.
  [[nodiscard]] virtual Status copy_in(char* here, const char* host, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Status copy_out(char* host, const char* here, std::uint64_t bytes) = 0;

  /// Copies a table to host memory, as it lies; of rows those that slots name.
  /// Threads no batch runs meanwhile.
  [[nodiscard]] virtual Status read(const Table& table, TableImage* image) = 0;

 private:
  const exec::TenantPtr tenant_;
};

/// Takes the verbs in as a tenant of `device`.
/// Errors  the loss of the device.
Result<std::shared_ptr<Backend>> make_backend(const exec::DevicePtr& device,
                                              exec::TenantOptions options);
/// The verbs on the host.
[[nodiscard]] std::shared_ptr<Backend> make_host_backend();

}  // namespace breccia::hash
