#pragma once

#include <string>

#include "bench/machine_limits.h"
#include "bench/step.h"

/// How benchmark results are kept: JSON objects, one a line.
namespace breccia::bench {

/// The row of a step: what was measured, of what, and the configuration in effect.
std::string to_json(const SuiteConfig& config, const Step& step, const StepResult& result);
/// The row of the machine in the same run.
std::string to_json(const MachineLimits& limits);

/// Whether rows are wanted.
inline bool keeps_rows(const SuiteConfig& config) {
  return config.json || !config.json_file.empty();
}
/// Appends `row` to config.json_file if it is set, and prints it if config.json is.
void keep_row(const SuiteConfig& config, const std::string& row);

/// What the machine is, in words: processor and cores.
std::string machine_name();

}  // namespace breccia::bench
