#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "bench/database.h"
#include "bench/series.h"
#include "console/console.h"

namespace breccia::bench {

namespace {

// 1234567.8 as `1.235 M`.
std::string rate(double per_s) {
  if (per_s >= 1e9) return fmt::format("{:.3f} G", per_s / 1e9);
  if (per_s >= 1e6) return fmt::format("{:.3f} M", per_s / 1e6);
  if (per_s >= 1e3) return fmt::format("{:.1f} k", per_s / 1e3);
  return fmt::format("{:.1f} ", per_s);
}

std::vector<StepResult> of(const std::vector<StepResult>& results, const std::string& step,
                           const std::string& engine) {
  std::vector<StepResult> some;
  std::copy_if(results.begin(), results.end(), std::back_inserter(some),
               [&](const auto& result) { return result.step == step && result.engine == engine; });
  return some;
}

Spread spread_over(const std::vector<StepResult>& results, double (*figure)(const StepResult&)) {
  std::vector<double> figures;
  for (const StepResult& result : results) figures.push_back(figure(result));
  return spread_of(std::move(figures));
}

}  // namespace

Spread spread_of(std::vector<double> figures) {
  BRECCIA_ASSERT(!figures.empty());
  std::sort(figures.begin(), figures.end());
  const std::size_t middle = figures.size() / 2;
  const double median =
      figures.size() % 2 == 1 ? figures[middle] : (figures[middle - 1] + figures[middle]) / 2;
  return {median, figures.front(), figures.back()};
}

const char* unit_of(const Step& step) {
  if (step.driver.transactions) return "transaction";
  return step.driver.batch_size > 1 ? "batch" : "request";
}

std::string hash_text(const StepResult& result) {
  return result.hashed ? fmt::format("{:016x}", result.hash) : "-";
}

void print_step(const SuiteConfig& config, const Step& step, const StepResult& result) {
  const auto requests = static_cast<double>(std::max<std::uint64_t>(result.requests, 1));
  const double thread_us = result.seconds * 1e6 * step.driver.threads / requests;
  const double megabytes =
      requests * (config.data.key_size + config.data.value_size) / 1048576.0 / result.seconds;
  fmt::print(
      "{:<16} : {:11.3f} micros/op {:.0f} ops/sec {:.3f} seconds {} operations; {:6.1f} "
      "MB/s",
      step.name, thread_us, result.requests_per_s(), result.seconds, result.requests, megabytes);
  if (result.reads_sampled > 0) {
    fmt::print(" ({:.1f} % found)", 100.0 * static_cast<double>(result.reads_found) /
                                        static_cast<double>(result.reads_sampled));
  }
  fmt::print(
      "\n  {} ({}), per {}: p50 {:.2f} us, p99 {:.2f} us, p99.9 {:.2f} us, max {:.2f} us; result "
      "hash {}\n",
      result.engine, result.backend, unit_of(step), result.p50_us, result.p99_us, result.p999_us,
      result.max_us, hash_text(result));
  fmt::print("  filling included {}ops/sec, store alone {}ops/sec; {} keys ({}){}\n",
             rate(result.with_filling()), rate(result.store_alone()),
             console::with_commas(config.data.keys), config.data.key_set,
             step.reads ? fmt::format(", {}", state_name(step.state)) : "");
  print_seconds(step, result);
}

void print_seconds(const Step& step, const StepResult& result) {
  if (step.driver.duration_s <= 0) return;
  const Series series = series_of(result.per_second);
  fmt::print("  of {} seconds the least {} ops, the median {} ops; {} stalled\n",
             result.per_second.size(), console::with_commas(series.least),
             console::with_commas(series.median), series.stalls);
}

void print_histogram(const base::Histogram& latency) {
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  fmt::print("Microseconds: Count: {} Average: {:.4f} Min: {:.2f} Max: {:.2f}\nPercentiles:",
             latency.count(), latency.mean() / 1000, us(latency.min()), us(latency.max()));
  constexpr std::array<double, 7> kPercents = {50, 75, 90, 99, 99.9, 99.99, 99.999};
  for (const double percent : kPercents) {
    fmt::print(" P{:g}: {:.2f}", percent, us(latency.percentile(percent)));
  }
  fmt::print("\n");
}

void print_comparison(const SuiteConfig& config, const std::vector<Step>& steps,
                      const std::vector<StepResult>& results) {
  fmt::print("\n{:<18} {:<9} {:>12} {:>12} {:>27} {:>12} {:>12} {:>8}  {}\n", "benchmark", "engine",
             "filled ops/s", "store alone", "least to greatest", "p50 us", "p99 us", "ratio",
             "result hash");
  for (const Step& step : steps) {
    double first = 0;
    for (const std::string& engine : config.compare) {
      const auto some = of(results, step.name, engine);
      if (some.empty()) continue;
      const Spread ops = spread_over(some, [](const StepResult& r) { return r.with_filling(); });
      const Spread alone = spread_over(some, [](const StepResult& r) { return r.store_alone(); });
      const Spread p50 = spread_over(some, [](const StepResult& r) { return r.p50_us; });
      const Spread p99 = spread_over(some, [](const StepResult& r) { return r.p99_us; });
      if (engine == config.compare.front()) first = ops.median;
      const std::string range = fmt::format("{} to {}", rate(ops.least), rate(ops.greatest));
      const std::string ratio =
          engine == config.compare.front() ? "" : fmt::format("{:.2f}x", first / ops.median);
      fmt::print("{:<18} {:<9} {:>12} {:>12} {:>27} {:>12.2f} {:>12.2f} {:>8}  {}\n", step.name,
                 engine, rate(ops.median), rate(alone.median), range, p50.median, p99.median, ratio,
                 hash_text(some.front()));
    }
  }
  for (const Step& step : steps) {
    for (const std::string& engine : config.compare) {
      const auto some = of(results, step.name, engine);
      if (some.empty() || some.front().settings.empty()) continue;
      fmt::print("{:<18} {:<9} {}\n", step.name, engine, some.front().settings);
    }
  }
  fmt::print(
      "medians of {} rounds; spread and ratio (of {} to that engine) are of what batches give with "
      "their filling\n",
      config.rounds, config.compare.front());
}

}  // namespace breccia::bench
