#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "disagg/cluster_map.h"
#include "disagg/coordinator/coordinator.h"
#include "fabric/sim/net.h"
#include "unit/disagg/sim_cluster.h"

/// What tests see of a simulated cluster, by its coordinator.

namespace breccia::disagg::testing {

using fabric::sim::Net;

/// Whether all values have as many servers as there are to be.
inline bool has_memory(const ClusterMap& map, std::uint32_t copies,
                       const std::set<std::string>& members) {
  std::size_t in_use = 0;
  for (const ClusterMap::Memory& one : map.memory) {
    EXPECT_FALSE(copies == 2 && one.is_lost && !one.is_moved);
    if (one.is_lost || !one.is_in_use) continue;
    ++in_use;
    if (!members.contains(one.member)) return false;
    const bool is_one = copies == 1 || (one.mirror.is_whole && members.contains(one.mirror.member));
    if (!is_one) return false;
  }
  return in_use > 0;
}

/// A look at the cluster.
struct Look {
  ClusterMap map;
  std::set<std::string> members;
};

inline Look look_at_once(SimCluster* cluster, Net::Node node) {
  // Anew each time: what was heard before may be of long ago.
  const auto coordinator = cluster->meet_coordinator(node);
  const Coordinator::View* view = nullptr;
  while (view == nullptr) {
    cluster->net().sleep(300);
    view = coordinator->it.look();
  }
  return {.map = ClusterMap::decode(view->document).take(), .members = view->members};
}

/// None: an index is not whole, or its server not there.
inline std::optional<Look> look_at(SimCluster* cluster, Net::Node node) {
  Look seen = look_at_once(cluster, node);
  const auto has = [&](const ClusterMap::Index& index) {
    return index.is_whole && seen.members.contains(index.member);
  };
  const bool has_all =
      !seen.map.shards.empty() &&
      std::all_of(seen.map.shards.begin(), seen.map.shards.end(),
                  [&](const auto& shard) { return has(shard.hash) && has(shard.ordered); });
  return has_all ? std::optional(seen) : std::nullopt;
}

/// Waits until both indexes are whole and their servers there, and memory servers, and tells who
/// has them. Where there is no second server for some values for long, one is added.
inline ClusterMap wait_until_whole(SimCluster* cluster, Net::Node node) {
  constexpr int kLooksMax = 200;
  for (int looks = 1;; ++looks) {
    if (looks % kLooksMax == 0 && cluster->copies() > 1) cluster->add_memory_server();
    const auto seen = look_at(cluster, node);
    if (seen.has_value() && has_memory(seen->map, cluster->copies(), seen->members)) {
      return seen->map;
    }
  }
}

/// No process has both indexes of a shard, and this one has as many as others, but for one.
inline bool is_spread(const ClusterMap& map, const std::string& process) {
  std::map<std::string, std::size_t> loads{{process, 0}};
  for (const ClusterMap::Shard& shard : map.shards) {
    if (shard.hash.process == shard.ordered.process) return false;
    ++loads[shard.hash.process];
    ++loads[shard.ordered.process];
  }
  return std::all_of(loads.begin(), loads.end(),
                     [&](const auto& one) { return one.second <= loads[process] + 1; });
}

/// A memory server that has values.
inline const std::string& memory_of(const ClusterMap& map) {
  const auto one = std::find_if(map.memory.begin(), map.memory.end(), [](const auto& memory) {
    return memory.is_in_use && !memory.is_lost;
  });
  return one->member;
}

}  // namespace breccia::disagg::testing
