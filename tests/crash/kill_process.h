#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"

/// Children of a test that are killed: this program again, with a test of its own to run.

namespace breccia::crash {

/// Starts this program to run the disabled test `name` with variables `NAME=value`.
pid_t spawn_self(const std::string& name, std::vector<std::string> variables);

/// Starts a child with `spawn` and kills it: mostly some time after `is_opening` has turned false,
/// at times while it starts, opens or recovers. Returns what went wrong.
std::string spawn_and_kill(const std::function<pid_t()>& spawn,
                           const std::function<bool()>& is_opening, base::Random* random);

}  // namespace breccia::crash
