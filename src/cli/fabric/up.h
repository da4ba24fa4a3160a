#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "disagg/cluster_config.h"

namespace breccia::cli::fabric {

/// A whole little cluster on this computer: a process for each server.
struct UpOptions {
  disagg::ClusterConfig network;  // the transport, and what is of that
  std::string folder;             // made if it is not there; cluster.json in it is what others name
  std::uint32_t index_servers = 2;
  std::uint32_t memory_servers = 2;
  std::uint32_t copies = 2;        // of each value, on a server each
  std::uint32_t shards = 1;        // that keys are divided into
  std::uint64_t memory_bytes = 0;  // of each
  std::uint64_t keys = 0;          // that there is room for
  /// Values, and what the cluster agrees on, are in files of the folder, which the next one there
  /// begins with.
  bool keeps = false;
};

/// Runs until it is told to end (SIGTERM, SIGINT); servers that end by themselves begin again, and
/// none outlives this.
[[nodiscard]] Status run_up(const UpOptions& options);

}  // namespace breccia::cli::fabric
