#include "bench/report.h"

#include <fmt/format.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/assert.h"
#include "console/console.h"
#include "console/rocksdb_assertions.h"

namespace breccia::bench {

namespace {

const char* unit_of(const Step& step) {
  if (step.driver.transactions) return "transaction";
  return step.driver.batch_size > 1 ? "batch" : "request";
}

std::string hash_text(const StepResult& result) {
  return result.hashed ? fmt::format("{:016x}", result.hash) : "-";
}

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

void print_step(const SuiteConfig& config, const Step& step, const StepResult& result) {
  const auto requests = static_cast<double>(std::max<std::uint64_t>(result.requests, 1));
  const double thread_us = result.seconds * 1e6 * step.driver.threads / requests;
  const double megabytes =
      requests * (config.key_size + config.value_size) / 1048576.0 / result.seconds;
  fmt::print(
      "{:<16} : {:11.3f} micros/op {:.0f} ops/sec {:.3f} seconds {} operations; {:6.1f} "
      "MB/s",
      step.name, thread_us, result.requests_per_s(), result.seconds, result.requests, megabytes);
  if (result.reads_sampled > 0) {
    fmt::print(" ({:.1f} % found)", 100.0 * static_cast<double>(result.reads_found) /
                                        static_cast<double>(result.reads_sampled));
  }
  fmt::print("\n  {} ({}), per {}: p50 {:.2f} us, p99 {:.2f} us, p99.9 {:.2f} us; result hash {}\n",
             result.engine, result.backend, unit_of(step), result.p50_us, result.p99_us,
             result.p999_us, hash_text(result));
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

std::string machine_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown processor";
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    model = line.substr(std::min(line.size(), line.find(':') + 2));
    break;
  }
  return fmt::format("{}, {} cores", model, std::thread::hardware_concurrency());
}

std::string to_json(const SuiteConfig& config, const Step& step, const StepResult& result) {
  nlohmann::ordered_json line = {
      {"benchmark", result.step},
      {"engine", result.engine},
      {"backend", result.backend},
      {"round", result.round},
      {"ops", result.requests},
      {"seconds", result.seconds},
      {"ops_per_sec", result.requests_per_s()},
      {"latency_of", unit_of(step)},
      {"p50_us", result.p50_us},
      {"p99_us", result.p99_us},
      {"p999_us", result.p999_us},
      {"num", config.num},
      {"key_size", config.key_size},
      {"value_size", config.value_size},
      {"batch_size", step.driver.batch_size},
      {"prebuilt", step.driver.prebuilt},
      {"threads", step.driver.threads},
      {"seed", config.seed},
      {"memtable_bytes", config.engine.memtable_bytes},
      {"rocksdb", fmt::format("{}.{}.{}", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH)},
      {"rocksdb_assertions", console::rocksdb_build().assertions == console::Assertions::kOn},
      {"machine", machine_name()},
  };
  line["result_hash"] = nullptr;
  if (result.hashed) line["result_hash"] = hash_text(result);
  // The script that builds knows the commit; the program does not.
  const char* commit = std::getenv("BRECCIA_COMMIT");
  if (commit != nullptr) line["commit"] = commit;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void keep_json(const SuiteConfig& config, const Step& step, const StepResult& result) {
  if (!config.json && config.json_file.empty()) return;
  const std::string line = to_json(config, step, result);
  if (config.json) fmt::print("{}\n", line);
  if (config.json_file.empty()) return;
  std::ofstream file(config.json_file, std::ios::app);
  file << line << '\n';
  file.close();
  if (!file) console::say(fmt::format("error: cannot append to {}", config.json_file));
}

void print_comparison(const SuiteConfig& config, const std::vector<Step>& steps,
                      const std::vector<StepResult>& results) {
  fmt::print("\n{:<18} {:<9} {:>12} {:>27} {:>12} {:>12} {:>8}  {}\n", "benchmark", "engine",
             "median ops/s", "least to greatest", "p50 us", "p99 us", "ratio", "result hash");
  for (const Step& step : steps) {
    double first = 0;
    for (const std::string& engine : config.compare) {
      const auto some = of(results, step.name, engine);
      if (some.empty()) continue;
      const Spread ops = spread_over(some, [](const StepResult& r) { return r.requests_per_s(); });
      const Spread p50 = spread_over(some, [](const StepResult& r) { return r.p50_us; });
      const Spread p99 = spread_over(some, [](const StepResult& r) { return r.p99_us; });
      if (engine == config.compare.front()) first = ops.median;
      const std::string range = fmt::format("{} to {}", rate(ops.least), rate(ops.greatest));
      const std::string ratio =
          engine == config.compare.front() ? "" : fmt::format("{:.2f}x", first / ops.median);
      fmt::print("{:<18} {:<9} {:>12} {:>27} {:>12.2f} {:>12.2f} {:>8}  {}\n", step.name, engine,
                 rate(ops.median), range, p50.median, p99.median, ratio, hash_text(some.front()));
    }
  }
  fmt::print("ratio: median of {} to median of that engine; {} rounds\n", config.compare.front(),
             config.rounds);
}

}  // namespace breccia::bench
