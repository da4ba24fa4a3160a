#pragma once

#include <breccia/store_options.h>

#include <cstdint>

namespace breccia {

/// Options of a store of the slab engine: single keys, in no order, in memory alone.
///
/// Its index are chained slabs on the device, its records lie in the host's memory. Nothing of it
/// outlives the process, whatever WriteOptions::durability says, so there is no folder and no log:
/// SyncLog, Flush and Changes are NotSupported, as RANGE, Merge and column families are. Of
/// StoreOptions what is said of logs and folders says nothing.
///
/// Of Transaction: as of HashOptions, but a key that was written and has its old value again has
/// changed.
struct SlabOptions : StoreOptions {
  /// Keys to make room for at once; the index grows as more come.
  std::uint64_t keys_expected = 1 << 20;
  /// All keys and all values have 8 bytes, others are InvalidArgument, and lie in the index itself.
  /// A lookup asks the device alone then, and nothing is kept of the host's memory; but what a lost
  /// device had is lost, and each call says so from then on (IOError). Of Transaction: a key that
  /// has its old value again has not changed.
  bool in_place = false;
  /// Bytes of the host's memory that records may take; 0: as many as there are. A write beyond that
  /// is MemoryLimit. With in_place there are none.
  std::uint64_t record_bytes_max = 0;
  /// Memory of the host that the index may take where the device's is full; 0: as much as there is.
  std::uint64_t index_host_bytes_max = 0;
};

}  // namespace breccia
