#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/location.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// The memory servers of a map, with connections where these can be had.
/// Owner   port and asking outlive it.
/// Threads the port's.
class MemoryPeers {
 public:
  MemoryPeers(fabric::Port* port, Asking* asking) : port_(port), asking_(asking) {}
  ~MemoryPeers();
  MemoryPeers(const MemoryPeers&) = delete;
  MemoryPeers& operator=(const MemoryPeers&) = delete;

  void follow(const ClusterMap& map);
  /// Connects to those that it has no connection to, until one cannot be reached; the next time it
  /// begins behind that one.
  /// Errors  those of this one.
  Status meet(fabric::TimeUs until);

  /// Null: there is no such server, or none that was reached.
  [[nodiscard]] const MemoryPeer* find(std::uint32_t node) const;
  [[nodiscard]] bool is_lost(std::uint32_t node) const;
  /// Whether a value may lie there, as far as is known.
  [[nodiscard]] bool is_place(const Location& location) const;
  /// Those that are not lost.
  [[nodiscard]] const std::vector<std::uint32_t>& nodes() const { return nodes_; }

 private:
  struct One {
    ClusterMap::Memory of;
    std::optional<MemoryPeer> peer;
  };
  void leave(One* one);

  fabric::Port* const port_;
  Asking* const asking_;
  std::map<std::uint32_t, One> all_;  // by node
  std::vector<std::uint32_t> nodes_;
  std::uint32_t last_ = 0;  // that was tried
};

}  // namespace breccia::disagg
