#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ordered/state.h"
#include "ordered/statistics.h"

namespace breccia::ordered {

/// A run, and what the host has of it.
struct BuiltRun {
  runs::RunPtr run;
  std::uint64_t end = 0;  // its entries lie below
  Order order;            // where its records begin is not known yet
};

/// Makes runs of entries, and says where: few are sorted by the host before a device has begun; of
/// more than fit on the device each chunk becomes a run of its own.
/// Threads any.
class RunBuilder {
 public:
  /// A device builds runs of `device_min` entries and more.
  RunBuilder(Backends* backends, Statistics* statistics, std::uint64_t device_min)
      : backends_(backends), statistics_(statistics), device_min_(device_min) {}

  /// True if `entries` become one run; false: runs in chunks, if the device still has no room then.
  [[nodiscard]] bool is_one_run(const record::EntriesRef& entries) const;

  /// The runs of a batch's entries, which come in arrival order, oldest first.
  /// Shape   `descriptors` as for Backend::build_run: then it is one run, whatever its size.
  /// Errors  MemoryLimit.
  Result<std::vector<BuiltRun>> build(const record::EntriesRef& entries,
                                      std::uint32_t* descriptors) const;

  /// One run of entries in run order. Errors  MemoryLimit.
  Result<runs::RunPtr> build_sorted(const record::EntriesRef& entries) const;

  /// True if `runs` should be merged on `device`, which is in use: it holds them all, or the host
  /// can bring it the others, which are not few entries alone.
  [[nodiscard]] bool merges_on(const runs::Backend& device,
                               const std::vector<MemRunPtr>& runs) const;

  /// True if runs of the family lie on a device, and others that are small on the host.
  [[nodiscard]] bool is_split(const FamilyView& family) const;
  /// `runs` with those small ones on the device, too, as far as it has room.
  [[nodiscard]] std::vector<MemRunPtr> lifted(std::vector<MemRunPtr> runs) const;

 private:
  class Part;

  /// True if the host builds so few entries itself: `device` has a bus, and the launches cost more.
  [[nodiscard]] bool is_small(const runs::Backend& device, std::uint64_t entries) const {
    return !device.device().host_reads() && entries < device_min_;
  }
  [[nodiscard]] static std::uint64_t fitting(const runs::Backend& device,
                                             const record::EntriesRef& entries);
  Result<std::uint64_t> build_chunks(const record::EntriesRef& entries, std::vector<BuiltRun>* runs,
                                     bool* is_full) const;
  Result<BuiltRun> build_one(const record::EntriesRef& entries, std::uint32_t* descriptors) const;
  static Result<MemRunPtr> lift(const MemRun& run, runs::Backend& device);

  Backends* backends_;
  Statistics* statistics_;
  const std::uint64_t device_min_;
};

/// The entries of a run that the host can read, in run order.
[[nodiscard]] record::EntriesRef entries_of(const runs::RunRef& run);

}  // namespace breccia::ordered
