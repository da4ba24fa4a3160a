#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/hash/run.h"

namespace breccia::bench::tables {

/// Prints the row of a benchmark: of the run's table as it is now, and what `more` has beside that.
/// Shape   timing has a call at least.
void say(const Run& run, const std::string& benchmark, const Choice& choice, std::uint64_t batch,
         const Timing& timing, const nlohmann::json& more);
void say(const Run& run, const std::string& benchmark, const Choice& choice, std::uint64_t batch,
         const Timing& timing);

}  // namespace breccia::bench::tables
