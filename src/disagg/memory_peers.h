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
  struct Options {
    fabric::TimeUs again_us = 20'000;  // between two looks at whether all are there
    fabric::TimeUs meet_us = 10'000;   // it waits for one so long, and leaves it alone longer
  };

  MemoryPeers(fabric::Port* port, Asking* asking, const Options& options)
      : port_(port), asking_(asking), options_(options) {}
  ~MemoryPeers();
  MemoryPeers(const MemoryPeers&) = delete;
  MemoryPeers& operator=(const MemoryPeers&) = delete;

  void follow(const ClusterMap& map);
  /// Connects to those that it has no connection to, if it is time to, until one cannot be reached;
  /// the next time it begins behind that one.
  void tend(fabric::TimeUs until);
  /// When tend() has something to do again.
  [[nodiscard]] fabric::TimeUs wake() const { return again_; }
  /// One of them did not do what it was asked for.
  void doubt() { again_ = 0; }

  /// Null: there is no such server, or none that was reached.
  [[nodiscard]] const MemoryPeer* find(std::uint32_t node) const;
  [[nodiscard]] bool is_lost(std::uint32_t node) const;
  /// Whether a value may lie there, as far as is known.
  [[nodiscard]] bool is_place(const Location& location) const;
  /// Those that are not lost.
  [[nodiscard]] const std::vector<std::uint32_t>& nodes() const { return nodes_; }

 private:
  Status meet(fabric::TimeUs until);

  struct One {
    ClusterMap::Memory of;
    std::optional<MemoryPeer> peer;
  };
  void leave(One* one);

  fabric::Port* const port_;
  Asking* const asking_;
  const Options options_;
  std::map<std::uint32_t, One> all_;  // by node
  std::vector<std::uint32_t> nodes_;
  std::uint32_t last_ = 0;  // that was tried
  fabric::TimeUs again_ = 0;
};

}  // namespace breccia::disagg
