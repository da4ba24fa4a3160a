#pragma once

#include <cstdint>

#include "base/result.h"
#include "disagg/cluster_config.h"

namespace breccia::cli::fabric {

/// Tells the cluster that a memory server that is waited for, as it has a file, does not come back:
/// it goes on without its values.
/// Errors  InvalidArgument: there is no such number, nobody waits for it, or `is_sure` is not said;
///         TryAgain: the cluster has changed meanwhile; those of look_at().
[[nodiscard]] Status lose(const disagg::ClusterConfig& config, std::uint32_t node, bool is_sure);

}  // namespace breccia::cli::fabric
