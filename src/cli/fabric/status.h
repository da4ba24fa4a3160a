#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "disagg/cluster_config.h"
#include "disagg/cluster_map.h"
#include "disagg/coordinator/coordinator.h"
#include "disagg/protocol.h"

namespace breccia::cli::fabric {

/// What was seen of a cluster.
struct Seen {
  std::string network;  // that it was seen by, as Port::describe() has it
  disagg::ClusterMap map;
  disagg::Coordinator::View view;
  struct Shard {
    std::optional<disagg::IndexState> hash, ordered;  // none: it does not answer
  };
  std::vector<Shard> shards;
};

/// Asks the coordinator, and all index servers, a second each at most.
/// Errors  TimedOut: the coordinator does not answer; Corruption; those of a port.
[[nodiscard]] Result<Seen> look_at(const disagg::ClusterConfig& config);

/// Prints by what network, roles, epoch, what is missing, and how far each is, or all of that as
/// JSON.
[[nodiscard]] Status print_status(const disagg::ClusterConfig& config, bool json);

}  // namespace breccia::cli::fabric
