#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

namespace breccia {

spdlog::logger& log() {
  // Never destroyed: threads of a database that is still open at exit may use it.
  static spdlog::logger* const logger =
      new spdlog::logger("breccia", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  return *logger;
}

}  // namespace breccia
