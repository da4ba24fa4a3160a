#pragma once

#include <string>
#include <vector>

#include "bench/step.h"

/// How benchmark results are shown and kept.
namespace breccia::bench {

/// Median, least and greatest of some figures.
struct Spread {
  double median = 0;
  double least = 0;
  double greatest = 0;
};

/// Shape   at least one figure.
Spread spread_of(std::vector<double> figures);

/// One line as db_bench prints it, then the percentiles and the fingerprint.
void print_step(const SuiteConfig& config, const Step& step, const StepResult& result);

/// The latencies in a table, as under --histogram.
void print_histogram(const base::Histogram& latency);

/// The JSON object of a run, in one line.
std::string to_json(const SuiteConfig& config, const Step& step, const StepResult& result);

/// Appends the object to config.json_file if it is set, and prints it if config.json is.
void keep_json(const SuiteConfig& config, const Step& step, const StepResult& result);

/// Medians, spread and the ratio of medians of the first engine to each other one.
void print_comparison(const SuiteConfig& config, const std::vector<Step>& steps,
                      const std::vector<StepResult>& results);

/// What the machine is, in words: processor and cores.
std::string machine_name();

}  // namespace breccia::bench
