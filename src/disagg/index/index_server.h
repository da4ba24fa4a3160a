#pragma once

#include <breccia/status.h>

#include <cstdint>

#include "disagg/cluster_map.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A server of one of the two indexes, as whoever keeps it in its role knows it (seat.h).
/// Threads its port's.
class IndexServer {
 public:
  IndexServer() = default;
  virtual ~IndexServer() = default;
  IndexServer(const IndexServer&) = delete;
  IndexServer& operator=(const IndexServer&) = delete;

  /// From here on the others are those of the map, in which this one has its role, of a shard: the
  /// same each time. Servers that cannot be reached are tried again.
  /// Errors  InvalidArgument: no map of this cluster.
  [[nodiscard]] virtual Status follow(const ClusterMap& map, std::uint32_t shard) = 0;
  /// Until then nobody else has the role.
  virtual void trust_until(fabric::TimeUs until) = 0;
  /// Does what comes until then.
  /// Errors  IOError, MemoryLimit: it cannot go on.
  [[nodiscard]] virtual Status serve(fabric::TimeUs until) = 0;
  /// What it takes from here on, and what others in its role had taken before, knows of the map
  /// that it follows.
  [[nodiscard]] virtual bool has_settled() const = 0;
  /// It has all keys, and another one can be built from it.
  [[nodiscard]] virtual bool is_whole() const = 0;

  /// From here on, until it is false again, another one is to have its role: it promises nobody any
  /// more that it has it.
  virtual void let_go(bool lets_go) = 0;
  /// Nothing that it has said is believed any more, or waits to be answered: another one can have
  /// its role, and nobody will see it.
  [[nodiscard]] virtual bool has_let_go() const = 0;
};

}  // namespace breccia::disagg
