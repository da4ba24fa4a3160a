#pragma once

#include <cstdint>
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
/// Errors  of find() and trust(): NotSupported: the map is of another version.
///         of all that asks: TryAgain, Busy, TimedOut: something is to be tried again, behind
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

  /// There is a map, and the hash server's table is known.
  Status find(fabric::TimeUs until);
  /// That is so, and for a while nobody else is the hash server, as far as is_trusted() says;
  /// whether its buckets are the index, is_whole() does.
  Status trust(fabric::TimeUs until);
  [[nodiscard]] const std::string& hash_member() const { return map_.hash.member; }
  /// Whether that one is the hash server still, or was when this began: what it has answered by
  /// then holds, also if both indexes are lost at once.
  [[nodiscard]] bool confirm(const std::string& member, fabric::TimeUs until);
  /// So it has been all the time since trust().
  [[nodiscard]] bool is_trusted() const { return port_->now_us() < trusted_until_; }
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  /// Behind a pause: maybe there is another map.
  void reconsider(fabric::TimeUs until);
  /// Something went well: the next pause is a short one.
  void rest_assured() { pause_us_ = 0; }

  [[nodiscard]] const TableInfo& table() const { return table_; }
  /// Another one each time that another server's table was found.
  [[nodiscard]] std::uint64_t tables() const { return tables_; }
  [[nodiscard]] MemoryPeers& memory() { return memory_; }

  /// What it tells stands still: there may be another table by now.
  void doubt_table() { has_table_ = false; }

  /// Bytes of the hash server's region.
  Status read_table(std::span<const fabric::Read> reads, fabric::TimeUs until);
  using BlockRead = MemoryPeers::BlockRead;
  /// Of a memory server, or else of its mirror.
  /// Errors  IOError: the memory server is lost; TryAgain: it was not reached.
  Status read_memory(std::uint32_t node, std::span<const BlockRead> reads, fabric::TimeUs until);
  /// Bytes that are to lie in a server's memory.
  struct BlockWrite {
    std::uint64_t offset;
    std::span<const std::byte> from;
  };
  /// To the server and its mirror.
  /// Errors  TryAgain, TimedOut: one of them was not written, or may be yet.
  Status write_memory(std::uint32_t node, std::span<const BlockWrite> writes, fabric::TimeUs until);
  Result<std::vector<std::byte>> ask_hash(Ask what, const WireWriter& question,
                                          fabric::TimeUs until);
  Result<std::vector<std::byte>> ask_ordered(Ask what, const WireWriter& question,
                                             fabric::TimeUs until);
  /// Errors  TimedOut: it may have done that. TryAgain, and what it says: it has not.
  Result<std::vector<std::byte>> ask_memory(std::uint32_t node, Ask what,
                                            const WireWriter& question, fabric::TimeUs until);

 private:
  bool look();
  void leave(std::optional<fabric::PeerId>* peer);
  [[nodiscard]] fabric::TimeUs try_until(fabric::TimeUs until) const;
  Status meet_hash(fabric::TimeUs until);
  Result<fabric::PeerId> meet_ordered(fabric::TimeUs until);

  fabric::Port* const port_;
  Coordinator* const coordinator_;
  const Options options_;
  Asking asking_;
  MemoryPeers memory_;
  std::uint64_t version_ = 0;  // of the map
  Status other_version_;       // what the coordinator has cannot be read
  ClusterMap map_;
  std::optional<fabric::PeerId> hash_, ordered_;
  bool has_table_ = false;
  TableInfo table_;
  std::uint64_t tables_ = 0;
  fabric::TimeUs trusted_until_ = 0;
  bool is_whole_ = false;
  fabric::TimeUs pause_us_ = 0;
};

}  // namespace breccia::disagg
