#pragma once

#include <spdlog/logger.h>

namespace breccia {

/// What the library says to people: lines on standard error. Standard output and the default
/// logger of spdlog are the program's. The variable BRECCIA_LOG_LEVEL says from which level on:
/// trace, debug, info (default), warning, error, critical, off.
/// Threads any.
[[nodiscard]] spdlog::logger& log();

}  // namespace breccia
