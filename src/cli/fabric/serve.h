#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

/// The servers of a cluster, as programs: each runs until it is told to end (SIGTERM, SIGINT).

namespace breccia::cli::fabric {

/// Has the cluster's coordinator, whose address the configuration names, and keeps what it knows in
/// a file.
[[nodiscard]] Status serve_coordinator(const std::string& config_file, const std::string& file);
/// Has memory for values; where the cluster takes it for lost, it begins anew, without them.
[[nodiscard]] Status serve_memory(const std::string& config_file, std::uint64_t bytes);
/// Has one of the indexes, or both, or waits to have one. Room for `keys` keys.
[[nodiscard]] Status serve_index(const std::string& config_file, std::uint64_t keys);

}  // namespace breccia::cli::fabric
