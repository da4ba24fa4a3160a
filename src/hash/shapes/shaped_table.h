#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "exec/device.h"
#include "hash/refs.h"
#include "hash/shapes/shape.h"

/// Tables of any of [gphash]'s shapes, to compare with ours: keys and values of 8 bytes, lookups
/// and insertions. They do not grow, move no key, and nothing is taken out of them.

namespace breccia::hash::shapes {

struct ShapedOptions {
  Shape shape;
  /// Lanes that work on one request, for which share_of() is not 0.
  int lanes = 32;
  /// Slots of all levels, at least; rounded up to buckets that levels share.
  std::uint64_t slots_min = 0;
  Secret secret;  // as TableOptions::secret
};

/// A table in a tenant's memory.
/// Threads one owner.
class ShapedTable {
 public:
  ShapedTable() = default;
  virtual ~ShapedTable() = default;
  ShapedTable(const ShapedTable&) = delete;
  ShapedTable& operator=(const ShapedTable&) = delete;

  [[nodiscard]] virtual std::uint64_t slot_count() const = 0;
  /// Runs requests whose columns lie in the tenant's memory, all kFind or all kInsert.
  /// Shape   of insertions no key twice. Five keys of 2^64 never have room.
  /// Order   done on return.
  /// Errors  InvalidArgument: other requests; IOError: the device.
  [[nodiscard]] virtual Status run_here(const RequestsRef& requests) = 0;
};

/// An empty table.
/// Errors  InvalidArgument: a shape or lanes that do not fit together; MemoryLimit; IOError: the
///         device.
Result<std::unique_ptr<ShapedTable>> make_shaped_table(const exec::TenantPtr& tenant,
                                                       const ShapedOptions& options);

}  // namespace breccia::hash::shapes
