#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace breccia {

namespace {

spdlog::logger* make_logger() {
  auto* const logger =
      new spdlog::logger("breccia", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  const char* const name = std::getenv("BRECCIA_LOG_LEVEL");
  if (name == nullptr) return logger;
  const spdlog::level::level_enum level = spdlog::level::from_str(name);  // unknown: off
  if (level == spdlog::level::off && std::strcmp(name, "off") != 0) {
    logger->warn(
        "BRECCIA_LOG_LEVEL is none of trace, debug, info, warning, error, critical, off: {}", name);
    return logger;
  }
  logger->set_level(level);
  return logger;
}

spdlog::logger& logger() {
  // Never destroyed: threads of a database that is still open at exit may use it.
  static spdlog::logger* const logger = make_logger();
  return *logger;
}

spdlog::level::level_enum in_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void log(LogLevel level, std::string_view line) {
  logger().log(in_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

void set_log_level(LogLevel level) { logger().set_level(in_spdlog(level)); }

}  // namespace breccia
