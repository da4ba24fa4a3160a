#pragma once

#include <string>
#include <vector>

#include "bench/step.h"

/// How benchmark results are shown.
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

/// Of a step that time ended, its seconds: the least, the median, and how many stalled.
void print_seconds(const Step& step, const StepResult& result);

/// The latencies in a table, as under --histogram.
void print_histogram(const base::Histogram& latency);

/// What a latency is of: request, batch or transaction.
const char* unit_of(const Step& step);
/// The fingerprint in hexadecimal; `-` if there is none.
std::string hash_text(const StepResult& result);

/// Medians, spread and the ratio of medians of the first engine to each other one.
void print_comparison(const SuiteConfig& config, const std::vector<Step>& steps,
                      const std::vector<StepResult>& results);

}  // namespace breccia::bench
