#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "disagg/cluster_config.h"

/// The servers of a cluster, as processes have them: each runs until it is told to end, and begins
/// anew where the cluster does not take it for a member any more.

namespace breccia::disagg {

/// Has the cluster's coordinator, whose address the configuration names, and keeps what it knows in
/// a file; empty: it keeps nothing.
/// Errors  InvalidArgument: it names another kind of coordinator; those of its port and its file.
[[nodiscard]] Status run_coordinator(const ClusterConfig& config, const std::string& file,
                                     const std::atomic<bool>& is_over);
/// Has memory for values, and keeps them in a file, with which it comes back; empty: it does not,
/// and where the cluster takes it for lost it begins anew, without them.
/// Shape   whole chunks (memory/pool_image.h) of the bytes are used.
/// Errors  InvalidArgument: the file is none of that size, or another cluster's.
[[nodiscard]] Status run_memory_server(const ClusterConfig& config, std::uint64_t bytes,
                                       const std::string& file, const std::atomic<bool>& is_over);
/// Has some of the indexes, one of each kind and shard at most, or waits to have some. The hash
/// indexes have room for `keys` keys, all shards together, and get larger as more come, up to 20
/// million each: the memory of a table beyond that is too much to be made, and given back, within a
/// session.
void run_index_server(const ClusterConfig& config, std::uint64_t keys,
                      const std::atomic<bool>& is_over);

}  // namespace breccia::disagg
