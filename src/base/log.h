#pragma once

#include <string_view>

/// spdlog stays behind this file: its header compiles all of fmt into each file that formats with
/// it.

namespace breccia {

enum class LogLevel { kInfo, kWarning, kError };

/// Says a line to people, on standard error. Standard output and the default logger of spdlog are
/// the program's. The variable BRECCIA_LOG_LEVEL says from which level on: trace, debug, info
/// (default), warning, error, critical, off. Threads any.
void log(LogLevel level, std::string_view line);

/// From now on nothing below `level` is said.
/// Threads any.
void set_log_level(LogLevel level);

}  // namespace breccia
