#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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
/// Owner   port and coordinator outlive it; the coordinator is this one's alone.
/// Threads the port's.
class MemorySeat {
 public:
  struct Options {
    MemoryServer::Options server;       // its member is a name that nobody has had
    std::uint32_t copies = 1;           // of each value, 1 or 2
    fabric::TimeUs turn_us = 5'000;     // between two looks at the cluster
    fabric::TimeUs agree_us = 100'000;  // what it asks the coordinator for has so long
  };

  MemorySeat(fabric::Port* port, Coordinator* coordinator, const Options& options)
      : port_(port),
        options_(options),
        membership_(port, coordinator, options.server.member, options.agree_us) {}
  MemorySeat(const MemorySeat&) = delete;
  MemorySeat& operator=(const MemorySeat&) = delete;

  /// Does what comes until then.
  /// Errors  Aborted: others do not take it for a member any more, or have it as lost. MemoryLimit.
  [[nodiscard]] Status serve(fabric::TimeUs until);
  /// Null: it has no place yet.
  [[nodiscard]] const MemoryServer* server() const { return server_.get(); }

 private:
  Status turn(fabric::TimeUs until);
  Status take_view(const Coordinator::View& view);
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
};

}  // namespace breccia::disagg
