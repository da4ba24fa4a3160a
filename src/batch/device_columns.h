#pragma once

#include <breccia/columns.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "batch/reads.h"
#include "exec/host_vector.h"

namespace breccia::batch {

/// Columns of the caller's that lie in memory of a device: they are brought to the host before
/// anybody looks at them, and values are sent back when all are there.
/// Threads one owner.
class DeviceColumns {
 public:
  /// `memory` lives longer; the device stands beside it.
  explicit DeviceColumns(exec::HostMemory* memory) : memory_(memory) {}

  /// A column that the host can read: this one, or a copy that lasts until give_back() or clear().
  /// Errors  InvalidArgument: slices, strings that overlap, offsets that fall; MemoryLimit; those
  ///         of HostMemory::copy_rows.
  Result<BytesColumn> bring(const BytesColumn& column);
  /// Arrays that the host can write, for the values of `count` lookups: these, or some that last
  /// until clear(), and are sent by deliver() once send_later() has said whose they are.
  /// Errors  MemoryLimit; InvalidArgument: values that would overlap.
  Result<ValueArray> stage(const ValueArray& into, std::uint64_t count);
  void send_later(Reads* reads, std::uint64_t first);
  /// Sends values to where they belong; of what the device does not take reads have kIOError.
  void deliver();

  /// What was brought and staged so far, and forgetting all since: nobody refers to it any more.
  struct Mark {
    std::size_t copies;
    std::size_t parcels;
  };
  [[nodiscard]] Mark mark() const { return {copies_.size(), parcels_.size()}; }
  void give_back(const Mark& mark);
  void clear() { give_back({0, 0}); }

 private:
  using Bytes = std::unique_ptr<exec::HostVector<std::byte>>;
  /// Values on their way to a device.
  struct Parcel {
    ValueArray into;  // the caller's
    std::uint64_t count = 0;
    Bytes values;
    Bytes found;
    Reads* reads = nullptr;
    std::uint64_t first = 0;
  };

  [[nodiscard]] Result<Bytes> make(std::uint64_t bytes) const;
  /// Copies bytes that lie one behind the other.
  [[nodiscard]] Status copy_in(const Bytes& to, const void* device, std::size_t bytes,
                               void* stream) const;
  Result<BytesColumn> bring_fixed(const BytesColumn& column);
  template <class Offset>
  Result<BytesColumn> bring_variable(const BytesColumn& column, const Offset* offsets);
  [[nodiscard]] Status send(const Parcel& parcel) const;

  exec::HostMemory* memory_;
  std::vector<Bytes> copies_;
  std::vector<Parcel> parcels_;
};

}  // namespace breccia::batch
