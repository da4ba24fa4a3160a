#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/coordinator/coordinator.h"
#include "disagg/location.h"
#include "disagg/memory_peers.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A client's way to the servers that have the roles of a cluster, as far as it knows the map: who
/// is refused, or not answered, looks for another one.
///
/// Shape   shards are those of the map: find() was OK, and shard < shards().
/// Errors  of find(), meet() and trust(): NotSupported: the map is of another version. Of find():
///         InvalidArgument: so is the coordinator (Coordinator::reached()). Of
///         all that asks: TryAgain, Busy, TimedOut: something is to be tried again, behind
///         reconsider(). IOError, InvalidArgument: it is not.
/// Owner   port and coordinator outlive it.
/// Threads the port's.
class Routes {
 public:
  struct Options {
    fabric::TimeUs again_us = 0;  // a question that was not answered so long is put again
    fabric::TimeUs try_us = 0;    // behind that time of silence a client looks for another map
  };

  Routes(fabric::Port* port, Coordinator* coordinator, const Options& options)
      : port_(port),
        coordinator_(coordinator),
        options_(options),
        asking_(port, options.again_us),
        memory_(port, &asking_, {.again_us = options.again_us, .meet_us = options.try_us}) {}
  ~Routes();
  Routes(const Routes&) = delete;
  Routes& operator=(const Routes&) = delete;

  /// There is a map.
  Status find();
  [[nodiscard]] std::uint32_t shards() const { return static_cast<std::uint32_t>(ways_.size()); }
  [[nodiscard]] std::uint32_t shard_of(const Slice& key) const { return placement_.shard_of(key); }
  /// The table of a shard's hash server is known, and memory servers have been looked for.
  Status meet(std::uint32_t shard, fabric::TimeUs until);
  /// Of which of these that is so, and for a while nobody else is the hash server, as far as
  /// is_trusted() says; whether its buckets are the index, is_whole() does. Of the others *why not.
  ShardSet trust(ShardSet shards, Status* why, fabric::TimeUs until);
  /// Of which of these nothing needs to be asked for that: buckets are the index.
  [[nodiscard]] ShardSet trusted(ShardSet shards) const;
  [[nodiscard]] const std::string& hash_member(std::uint32_t shard) const {
    return map_.shards[shard].hash.member;
  }
  /// Whether that one is the hash server still, or was when this began: what it has answered by
  /// then holds, also if both indexes are lost at once.
  [[nodiscard]] bool confirm(std::uint32_t shard, const std::string& member, fabric::TimeUs until);
  /// So it has been all the time since trust().
  [[nodiscard]] bool is_trusted(std::uint32_t shard) const {
    return port_->now_us() < ways_[shard].trusted_until;
  }
  [[nodiscard]] bool is_whole(std::uint32_t shard) const { return ways_[shard].is_whole; }
  [[nodiscard]] fabric::TimeUs trusted_until_us(std::uint32_t shard) const {
    return ways_[shard].trusted_until;
  }
  /// Behind a pause: maybe there is another map.
  void reconsider(fabric::TimeUs until);
  /// Something went well: the next pause is a short one.
  void rest_assured() { pause_us_ = 0; }

  /// Shape   it was met.
  [[nodiscard]] const TableInfo& table(std::uint32_t shard) const { return ways_[shard].table; }
  /// As of TableInfo, of all shards that were met.
  [[nodiscard]] fabric::TimeUs read_us() const { return read_us_; }
  [[nodiscard]] fabric::TimeUs rest_us() const { return rest_us_; }
  [[nodiscard]] MemoryPeers& memory() { return memory_; }

  /// What it tells stands still: there may be another table by now.
  void doubt_table(std::uint32_t shard) { ways_[shard].has_table = false; }

  /// Bytes of a hash server's region.
  struct TableReads {
    std::uint32_t shard = 0;
    std::vector<fabric::Read> reads;
  };
  /// All at once.
  Status read_tables(std::span<const TableReads> all, fabric::TimeUs until);
  using BlockRead = MemoryPeers::BlockRead;
  /// Blocks of a memory server, and what came of it: IOError: the server is lost.
  struct NodeReads {
    std::uint32_t node = 0;
    std::vector<BlockRead> reads;
    Status status = {};
  };
  /// Of several memory servers, or else of their mirrors, all at once; tables beside them: whether
  /// these were read.
  bool read_memory(std::span<NodeReads> all, std::span<const TableReads> beside,
                   fabric::TimeUs until);
  /// Bytes that are to lie in a server's memory.
  struct BlockWrite {
    std::uint64_t offset;
    std::span<const std::byte> from;
  };
  /// Those of a memory server and its mirror, and what came of it: TryAgain, TimedOut: one of the
  /// two was not written, or may be yet.
  struct NodeWrites {
    std::uint32_t node = 0;
    std::vector<BlockWrite> writes;
    Status status = {};
  };
  /// Of several, all at once.
  void write_memory(std::span<NodeWrites> all, fabric::TimeUs until);
  /// A question for a shard's server, and what came of it.
  struct ToShard {
    std::uint32_t shard = 0;
    WireWriter question;
    Result<std::vector<std::byte>> answer = Status::TryAgain("it was not asked");
    fabric::TimeUs answered_us = 0;  // when that came
  };
  /// Questions to hash servers, all at once.
  void ask_hash(Ask what, std::span<ToShard> all, fabric::TimeUs until);
  /// To ordered servers.
  void ask_ordered(Ask what, std::span<ToShard> all, fabric::TimeUs until);
  /// Errors  TimedOut: it may have done that. TryAgain, and what it says: it has not.
  Result<std::vector<std::byte>> ask_memory(std::uint32_t node, Ask what,
                                            const WireWriter& question, fabric::TimeUs until);

 private:
  /// To a shard's servers.
  struct Way {
    std::optional<fabric::PeerId> hash, ordered;
    bool has_table = false;
    TableInfo table;
    fabric::TimeUs trusted_until = 0;
    bool is_whole = false;
  };

  bool look();
  void follow(const ClusterMap& before);
  void leave(std::optional<fabric::PeerId>* peer);
  [[nodiscard]] fabric::TimeUs try_until(fabric::TimeUs until) const;
  Status meet_hash(std::uint32_t shard, fabric::TimeUs until);
  Status take_trust(const ToShard& told, fabric::TimeUs asked);
  [[nodiscard]] bool read_servers(std::span<NodeReads> all, bool by_mirrors,
                                  std::span<const TableReads> beside, fabric::TimeUs until);
  [[nodiscard]] bool is_replaced(std::uint32_t shard, const std::string& member) const;
  Result<fabric::PeerId> meet_ordered(std::uint32_t shard, fabric::TimeUs until);

  fabric::Port* const port_;
  Coordinator* const coordinator_;
  const Options options_;
  Asking asking_;
  MemoryPeers memory_;
  std::uint64_t version_ = 0;  // of the map
  Status other_version_;       // what the coordinator has cannot be read
  ClusterMap map_;
  Placement placement_;
  std::vector<Way> ways_;  // by shard
  fabric::TimeUs read_us_ = std::numeric_limits<fabric::TimeUs>::max();
  fabric::TimeUs rest_us_ = 0;
  fabric::TimeUs pause_us_ = 0;
};

}  // namespace breccia::disagg
