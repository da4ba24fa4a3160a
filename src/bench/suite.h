#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/step.h"

/// A list of benchmarks run one after the other on one database, on one engine or on several.
namespace breccia::bench {

/// Called after each step with what was measured; `outcome` lives for the call only.
using OnStep = std::function<void(const Step&, const StepResult&, const DriverOutcome& outcome)>;

/// Runs the suite as configured: on one engine, or on each in turn with fresh databases.
/// Bound   returns an ExitCode; says on stderr what went wrong.
int run_suite(const SuiteConfig& config, const std::vector<Step>& steps, const OnStep& on_step);

/// Steps whose results differ between engines or rounds. Of each step all results must be there.
std::vector<std::string> mismatches(const std::vector<StepResult>& results);

}  // namespace breccia::bench
