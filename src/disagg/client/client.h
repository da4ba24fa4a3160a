#pragma once

#include <breccia/status.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/secret.h"
#include "disagg/client/leased_blocks.h"
#include "disagg/client/location_cache.h"
#include "disagg/client/lookups.h"
#include "disagg/client/range.h"
#include "disagg/client/routes.h"
#include "disagg/client/writes.h"
#include "disagg/coordinator/coordinator.h"
#include "disagg/protocol.h"
#include "disagg/watermark.h"
#include "fabric/port.h"

namespace breccia::disagg {

struct ClientOptions {
  /// A question that was not answered so long is put again.
  fabric::TimeUs ask_again_us = 20'000;
  /// Behind so long a silence of a server it asks the coordinator who has its role.
  fabric::TimeUs try_us = 50'000;
  /// Blocks of a class that it takes at once, at most, so as not to ask for each.
  std::uint32_t lease_max = 64;
  /// Keys of which it remembers where their values lie.
  std::uint64_t cached_places = 1 << 14;
  /// Of generations of blocks, which no two clients may share, and of which server gets the next
  /// one; 0: a random one.
  std::uint64_t seed = 0;
};

/// Keys and values in the memory of servers. A lookup is two reads, of a bucket and of the value,
/// and no work of a server; a write is one of the value, and a question to the hash server.
///
/// Where a server is gone, it waits for another one in its place; while the hash index is built,
/// lookups ask the ordered server.
///
/// Errors  TimedOut: the time is over, and nothing was written. IOError: of a write: whether it
///         was, or will be, is not known; of others: the memory server that had the value is lost.
///         NotSupported: the cluster is of another release; nothing was written. InvalidArgument:
///         its coordinator is, or there is no such address.
///         Corruption: what an entry leads to is no value. MemoryLimit: servers are full; nothing
///         was written.
/// Owner   port and coordinator outlive it.
/// Threads the port's.
/// Source  [hstore] 3.2 and 4.2.
class Client {
 public:
  /// Waits until there is a cluster.
  static Result<std::unique_ptr<Client>> open(fabric::Port* port, Coordinator* coordinator,
                                              const ClientOptions& options, fabric::TimeUs until);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] Status get(const Slice& key, std::string* value, fabric::TimeUs until);
  /// Many at once, each by itself: lookups say what came of them. Those that are done are left
  /// alone.
  /// Errors  TimedOut: some are not done.
  [[nodiscard]] Status get(std::span<Lookup> lookups, fabric::TimeUs until);
  [[nodiscard]] Status put(const Slice& key, const Slice& value, fabric::TimeUs until);
  [[nodiscard]] Status erase(const Slice& key, fabric::TimeUs until);
  /// Many writes, each by itself, those of a key in their order. Which are done, they say; those
  /// that are before this are left alone.
  /// Errors  of those that are not: nothing was written, but with IOError, where of some it is not
  ///         known.
  [[nodiscard]] Status write(std::span<Change> changes, fabric::TimeUs until);
  /// The first keys of [begin, end), `limit` at most, in their order, with their values; an empty
  /// `end` is none. Of a cluster of one shard that is as of one moment; of more shards each key is
  /// as of a moment of this call.
  /// Shape   limit up to kScanMax.
  [[nodiscard]] Status scan(const Slice& begin, const Slice& end, std::uint32_t limit,
                            std::vector<std::pair<std::string, std::string>>* found,
                            fabric::TimeUs until);
  /// The same up to about so many bytes: of what comes behind that, *is_cut says that there may be
  /// more.
  [[nodiscard]] Status scan_part(const Slice& begin, const Slice& end, std::uint32_t limit,
                                 std::uint64_t bytes_max,
                                 std::vector<std::pair<std::string, std::string>>* found,
                                 bool* is_cut, fabric::TimeUs until);
  /// Gives back what it has of servers' memory, when that has rested.
  [[nodiscard]] Status close(fabric::TimeUs until);

  using Counts = ClientCounts;
  [[nodiscard]] Counts counts() const {
    Counts counts = counts_;
    counts.lost = blocks_.lost();
    return counts;
  }

 private:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  Client(fabric::Port* port, Coordinator* coordinator, const ClientOptions& options);

  template <class Once>
  Status again_and_again(fabric::TimeUs until, Once once);
  Status meet_all(fabric::TimeUs until);
  [[nodiscard]] ShardSet shards_of(std::span<const Lookup> lookups) const;

  Status get_once(std::span<Lookup> lookups, fabric::TimeUs until);
  Status get_in_order(std::span<Lookup> lookups, ShardSet of, fabric::TimeUs until);
  Status get_in_order(Lookup* lookup, fabric::TimeUs until);

  Status scan_once(ShardSet shards, const RangeQuestion& range, std::uint64_t bytes_max,
                   Pairs* found, bool* is_cut, fabric::TimeUs until);
  /// A range that was told, and its hash server's watermark.
  struct Watched {
    const RangeAnswer* of = nullptr;
    std::array<std::byte, sizeof(Watermark)> bytes;
    bool is_read = false;
  };
  Result<bool> read_values(std::span<const Slot> slots, std::vector<Watched>* watched, Pairs* found,
                           fabric::TimeUs until);
  Status read_blocks(std::map<std::uint32_t, std::vector<Routes::BlockRead>>* of_node,
                     std::vector<Watched>* watched, fabric::TimeUs until);
  [[nodiscard]] Routes::TableReads watermark_of(Watched* watched) const;
  Status wait_for(Watched watched, fabric::TimeUs until);

  fabric::Port* const port_;
  const ClientOptions options_;
  Routes routes_;
  LeasedBlocks blocks_;
  LocationCache cache_;
  std::vector<std::byte> range_bytes_;  // of a range's blocks, if these are not many
  Counts counts_;
  Lookups lookups_;
  Writes writes_;
};

}  // namespace breccia::disagg
