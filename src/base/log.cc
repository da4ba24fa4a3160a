#include "base/log.h"

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

}  // namespace

spdlog::logger& log() {
  // Never destroyed: threads of a database that is still open at exit may use it.
  static spdlog::logger* const logger = make_logger();
  return *logger;
}

}  // namespace breccia
