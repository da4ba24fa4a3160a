#pragma once

#include <spdlog/logger.h>

namespace breccia {

/// What the library says to people: lines on standard error. Standard output and the default
/// logger of spdlog are the program's.
/// Threads any.
[[nodiscard]] spdlog::logger& log();

}  // namespace breccia
