#pragma once

#include <functional>
#include <vector>

#include "batch/requests.h"
#include "rocks/below.h"
#include "rocks/state.h"

namespace breccia::rocks {

/// Answers lookups from a view: memtable and runs on the backend, values from the log by CPU
/// threads, what is in neither from the tree below.
/// Threads any number; holds no state of its own.
/// Source  [hrocks] section 6.2. Deviation: the backend returns places, not values; the CPU gathers
///         them (random access to host memory is the device's slowest road, docs/performance.md).
class Reader {
 public:
  /// `leave_device` is called when a search found the device lost: it moves the current view to the
  /// host.
  Reader(BackendSlot* backends, const Below* below, std::function<void()> leave_device)
      : backends_(backends), below_(below), leave_device_(std::move(leave_device)) {}

  /// One key at `pin`.
  Status get(const Pin& pin, const Slice& key, rocksdb::PinnableSlice* value) const;

  /// Makes room for the results of all reads of `requests`.
  /// Errors  MemoryLimit.
  static Status prepare(bool own_writes, batch::Requests* requests);

  /// All reads of a batch that was prepared. Read i sees entries below base + read_after[i] if
  /// `own_writes`, else below pin.visible. Fewer than `device_min` reads are answered on the
  /// calling thread alone. Errors  none but those of single reads, in their results.
  void read(const Pin& pin, bool own_writes, std::uint64_t base, std::uint64_t device_min,
            batch::Requests* requests) const;

 private:
  bool search(const memtable::View& view, const exec::QueriesRef& queries,
              std::uint64_t* found) const;
  void gather(const memtable::View& view, const exec::KeyColumnsRef& keys, std::uint64_t begin,
              std::uint64_t end, std::size_t part, batch::Requests* requests) const;
  void read_below(const memtable::View& view, const exec::KeyColumnsRef& keys,
                  const std::vector<std::uint32_t>& missing, std::size_t part,
                  batch::Requests* requests) const;

  BackendSlot* backends_;
  const Below* below_;
  std::function<void()> leave_device_;
};

}  // namespace breccia::rocks
