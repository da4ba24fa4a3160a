#pragma once

#include <string>

#include "base/result.h"
#include "bench/engines/engine.h"

/// Folders of benchmark databases. Only folders that carry the benchmark's mark are ever removed.
namespace breccia::bench {

/// Makes the folders of `place` new and marks them as the benchmark's own.
/// Errors  InvalidArgument: a folder holds something that no benchmark put there; it is as before.
Status make_fresh(const Place& place);

/// Removes what make_fresh made and a benchmark filled.
Status remove_marked(const Place& place);

/// A place below `place` for one engine and round.
Place nested(const Place& place, const std::string& name);

/// The folder used if none is named.
std::string default_folder();

}  // namespace breccia::bench
