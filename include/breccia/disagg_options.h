#pragma once

#include <breccia/store_options.h>

#include <cstdint>
#include <string>

namespace breccia {

/// Options of a store that lies in the memory of servers (docs/disagg.md), as one of its clients
/// sees it.
///
/// Each write is by itself: one that is acknowledged is in both indexes and on as many memory
/// servers as the cluster has copies, whatever WriteOptions::durability says, and each reader finds
/// it. Batches are not atomic: their writes happen in their order, together as far as may be, and
/// where one fails those before it have happened; with IOError it is not known of some. Lookups and
/// ranges see the writes before them; a range is as of one moment for 4,096 keys at a time.
///
/// There is no folder and no log of this store's: SyncLog, Flush and Changes are NotSupported, as
/// Merge, DeleteRange, column families and Transaction are. Of StoreOptions what is said of logs,
/// folders and devices says nothing, and hot_tier is InvalidArgument: other clients write, too.
/// Keys have 1 to 65,536 bytes, values up to 1 MiB.
struct DisaggOptions : StoreOptions {
  /// The file by which the cluster is found, as `breccia fabric up` writes it.
  std::string config;
  /// So many batches run at once, each by a connection of its own, which is made when it is first
  /// needed; others wait.
  std::uint32_t clients_max = 4;
  /// How long a batch may take, also while a server's place is empty; WriteOptions::wait_us_max of
  /// a batch goes before it.
  std::uint64_t operation_us_max = 10'000'000;
};

}  // namespace breccia
