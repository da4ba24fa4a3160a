#pragma once

#include "base/result.h"
#include "bench/disagg/worker.h"
#include "disagg/cluster_map.h"

namespace breccia::bench::disagg {

/// Keys a second that a client's thread reads for so many seconds out of the memory servers of a
/// map, 1,024 at a time, as who builds an ordered index does: the beginnings of blocks, at random.
/// The first read of a page of shared memory takes longer, so all were read before.
/// Errors  IOError: a server cannot be reached; those of the port.
Result<double> keys_gathered_per_sec(Worker* worker, const breccia::disagg::ClusterMap& map,
                                     double seconds);

}  // namespace breccia::bench::disagg
