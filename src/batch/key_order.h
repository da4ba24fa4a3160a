#pragma once

#include <cstdint>

#include "batch/reads.h"
#include "batch/writes.h"
#include "exec/host_vector.h"

namespace breccia::batch {

/// Which point requests of a batch, in one column family, are for the same key. An engine that
/// keeps one value a key applies those in arrival order; requests that are alone with their key may
/// go in any order. So may others: of updates that read before they write, each key is read once.
///
/// Requests have numbers: the point operations of the writes as they stand in their columns, then
/// the reads. Range deletions and ranges are for no single key; whoever takes them keeps them apart
/// from the point requests on both of their sides.
///
/// Threads one owner.
class KeyOrder {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit KeyOrder(exec::HostMemory& memory)
      : memory_(memory), before_(memory), next_(memory), shared_(memory) {}

  /// Looks at the requests of one family; either part may be null.
  /// Errors  false, std::bad_alloc: out of memory; then no request is known.
  /// Owner   the parts are not needed afterwards.
  /// Cost    linear, shared among threads; n log n where keys are made to have one hash.
  [[nodiscard]] bool build(const Writes* writes, const Reads* reads);
  void clear();

  /// Requests that are known.
  [[nodiscard]] std::uint64_t count() const { return before_.size(); }
  /// The last request for the same key that came before request `i`, and the first that came after
  /// it; kNone: there is none.
  [[nodiscard]] std::uint32_t before(std::uint64_t i) const { return before_[i]; }
  [[nodiscard]] std::uint32_t next(std::uint64_t i) const { return next_[i]; }
  /// Of each key that has several requests the first one; from there next() leads to the others.
  [[nodiscard]] const exec::HostVector<std::uint32_t>& shared() const { return shared_; }

 private:
  exec::HostMemory& memory_;
  exec::HostVector<std::uint32_t> before_;
  exec::HostVector<std::uint32_t> next_;
  exec::HostVector<std::uint32_t> shared_;
};

}  // namespace breccia::batch
