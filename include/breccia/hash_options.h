#pragma once

#include <breccia/store_options.h>

#include <cstdint>

namespace breccia {

/// Which rows a device's cache keeps.
enum class RowCachePolicy : std::uint8_t {
  kFrequency,  // those that are looked up most often of late
  kRecency,    // those that were looked up last
  kRandom,     // any
};

/// Options of a store of the hash engine: single keys, in no order.
///
/// Its index lies on the device, its records in the log; both are made for keys that are looked up
/// and written in large batches. RANGE, Merge and column families are NotSupported.
///
/// Of Transaction: reads are as of the last Read, not of the opening; Read, too, is Busy if what an
/// earlier one found is not so any more; what matters are values, so a key that was written and has
/// its old value again has not changed. Of StoreOptions: `device_requests_min` says nothing, and
/// `wait_us_max` of 0 alone: such a write cleans no log.
struct HashOptions : StoreOptions {
  /// Keys to make room for at once; the index grows as more come.
  std::uint64_t keys_expected = 1 << 20;
  /// The log may take so many times what its newest records take, before the oldest part is
  /// cleaned: those of its records that are still the newest of their keys are written again at
  /// its end. A larger one takes more memory, and less of what is written is written twice.
  double log_factor = 2;
  /// Of HashStore::FindRows: so many bytes of the device's memory keep rows that are looked up
  /// often, of `cached_row_bytes` each, a multiple of 8. 0: none. Less where the device has not
  /// so many; given back, until the store is opened again, when stores of this process want more
  /// than is left. Without a GPU there is no such cache.
  std::uint64_t row_cache_bytes = 0;
  std::size_t cached_row_bytes = 0;
  /// Of that cache.
  RowCachePolicy row_cache_policy = RowCachePolicy::kFrequency;
  /// On a device HashStore::PutRows writes rows of 128, 192, 256, ... bytes at multiples of so many
  /// bytes, 8 or 64: with 64 a row lies in as few cache lines as it can, which is what FindRows
  /// waits for, and takes 48 bytes more of the log: rows of 128 bytes are found a sixth faster, and
  /// written a quarter slower. 8 suits who writes each row that is looked up. Other rows, and those
  /// that batches write, lie at multiples of 8. A store may be opened with one and then the other.
  std::size_t row_alignment = 64;
};

}  // namespace breccia
