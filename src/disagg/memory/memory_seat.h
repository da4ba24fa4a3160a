#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "disagg/cluster_map.h"
#include "disagg/coordinator/coordinator.h"
#include "disagg/membership.h"
#include "disagg/memory/memory_server.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A memory server of a cluster: it puts itself into the map, as the mirror of a server that has
/// none, if there is to be one, or under the next number that nobody has had. Where each value is
/// to have two servers, one that no value has gone to gives its number up when it can be a mirror.
///
/// A server that others do not take for a member any more, as it stood still or the coordinator
/// did, has its values yet: the next seat takes it, by another name, and has its place again if
/// nobody else has by then, and it is not lost.
///
/// What a medium has is had again, too, but not what was leased, nor what was written and not yet
/// kept: so it comes back under another number, and indexes are made anew.
/// Owner   port and coordinator outlive it; the coordinator is this one's alone.
/// Threads the port's.
class MemorySeat {
 public:
  struct Options {
    MemoryServer::Options server;       // its member is a name that nobody has had
    std::uint32_t copies = 1;           // of each value, 1 or 2
    fabric::TimeUs turn_us = 5'000;     // between two looks at the cluster
    fabric::TimeUs agree_us = 100'000;  // what it asks the coordinator for has so long
    /// Who comes back with what a mirror's medium has waits so long for its server.
    fabric::TimeUs return_us = 2'000'000;
  };

  /// `before`: what another seat on the same port has left, or null.
  MemorySeat(fabric::Port* port, Coordinator* coordinator, const Options& options,
             std::unique_ptr<MemoryServer> before = nullptr)
      : port_(port),
        options_(options),
        membership_(port, coordinator, options.server.member, options.agree_us),
        server_(std::move(before)) {}
  MemorySeat(const MemorySeat&) = delete;
  MemorySeat& operator=(const MemorySeat&) = delete;

  /// Does what comes until then.
  /// Errors  Aborted: others do not take it for a member any more, or have it as lost. MemoryLimit.
  ///         InvalidArgument: what the medium has is another cluster's. Its medium's.
  [[nodiscard]] Status serve(fabric::TimeUs until);
  /// The server with its values, behind an error of serve(), for the next seat. Null: what it has
  /// is of no use.
  [[nodiscard]] std::unique_ptr<MemoryServer> take_server() {
    return is_of_use_ ? std::move(server_) : nullptr;
  }
  /// Null: it has no place yet.
  [[nodiscard]] const MemoryServer* server() const { return server_.get(); }

 private:
  Status turn(fabric::TimeUs until);
  Status take_view(const Coordinator::View& view);
  Status come_back();
  Status come_back_from_medium(const Coordinator::View& view);
  [[nodiscard]] bool may_come_back(const ClusterMap::Memory& old, const Coordinator::View& view);
  Status take_place_of(std::uint32_t node);
  Status begin_anew();
  [[nodiscard]] ClusterMap::Memory mine(bool is_in_use) const;
  Status enter(const Coordinator::View& view);
  [[nodiscard]] std::optional<std::size_t> find_lonely(const Coordinator::View& view) const;
  void say_whole();

  fabric::Port* const port_;
  const Options options_;
  Membership membership_;
  std::uint64_t version_ = 0;  // of the map
  ClusterMap map_;
  std::unique_ptr<MemoryServer> made_;  // and has no place yet
  std::unique_ptr<MemoryServer> server_;
  bool has_place_ = false;                     // by this name
  bool is_of_use_ = true;                      // what the server has
  std::optional<fabric::TimeUs> waits_since_;  // for the server whose mirror it was
  std::optional<fabric::TimeUs> no_number_since_;
  std::optional<std::uint64_t> whole_at_;  // a mirror is when its medium has what was noted by then
};

}  // namespace breccia::disagg
