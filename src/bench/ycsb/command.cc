#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/commands.h"
#include "bench/report.h"
#include "bench/rows.h"
#include "bench/ycsb/generators.h"
#include "bench/ycsb/ycsb.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::bench {

namespace {

struct YcsbFlags {
  SuiteFlags suite;
  std::vector<std::string> files;
  std::vector<std::string> next;
  std::vector<std::string> properties;
  double target = 0;
};

Status read_properties(const YcsbFlags& flags, const std::vector<std::string>& files,
                       Properties* properties) {
  for (const std::string& name : files) {
    std::ifstream file(name);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return Status::IOError("cannot read " + name);
    const Status status = parse_properties(text.str(), properties);
    if (!status.ok()) return Status::InvalidArgument(name + ": " + status.ToString());
  }
  for (const std::string& property : flags.properties) {
    BRECCIA_TRY(parse_properties(property, properties));
  }
  return Status();
}

Result<YcsbRun> read_run(const YcsbFlags& flags, const std::vector<std::string>& files) {
  Properties properties;
  BRECCIA_TRY(read_properties(flags, files, &properties));
  BRECCIA_TAKE(YcsbWorkload workload, ycsb_workload(properties));
  const std::string name =
      files.empty() ? "ycsb" : std::filesystem::path(files.back()).filename().string();
  return YcsbRun{name, std::move(workload)};
}

/// The workload of -P, then those of --next.
Result<std::vector<YcsbRun>> read_runs(const YcsbFlags& flags) {
  std::vector<YcsbRun> runs(1);
  BRECCIA_TAKE(runs[0], read_run(flags, flags.files));
  for (const std::string& file : flags.next) {
    std::vector<std::string> files = flags.files;
    files.push_back(file);
    runs.emplace_back();
    BRECCIA_TAKE(runs.back(), read_run(flags, files));
  }
  BRECCIA_TRY(check_runs(runs));
  return runs;
}

void report(const SuiteConfig& suite, const Step& step, const StepResult& result,
            const DriverOutcome& outcome) {
  if (keeps_rows(suite)) keep_row(suite, to_json(suite, step, result));
  // A comparison ends with a table of all runs.
  if (suite.json || !suite.compare.empty()) return;
  fmt::print("# {} on {} ({}), round {}, {} threads, batches of {}\n", step.name, result.engine,
             result.backend, result.round, step.driver.threads, step.driver.batch_size);
  print_ycsb_summary(outcome);
  print_seconds(step, result);
  if (suite.histogram) print_histogram(outcome.latency);
}

int run_ycsb(const YcsbFlags& flags) {
  auto runs = read_runs(flags);
  if (!runs.ok()) {
    console::say_error(
        "no workload", runs.status(),
        "name a file with -P, as bench/workloads/workloada, and set the rest with -p");
    return runs.status().IsIOError() ? console::kExitFailed : console::kExitUsage;
  }
  SuiteConfig suite;
  const YcsbWorkload& workload = runs.value().front().workload;
  const bool by_time = std::any_of(runs.value().begin(), runs.value().end(),
                                   [](const auto& run) { return run.workload.seconds > 0; });
  if (by_time && (flags.suite.ready || flags.suite.prebuilt)) {
    console::say("error: --ready and --prebuilt need a number of requests, not maxexecutiontime");
    return console::kExitUsage;
  }
  suite.data = {.num = workload.record_count,
                .keys = workload.record_count,
                .key_set = "ycsb",
                .key_size = static_cast<std::uint32_t>(ycsb_key_size_max(workload)),
                .value_size = static_cast<std::uint32_t>(workload.value_size()),
                .skew = workload.distribution == Distribution::kUniform ? 0 : kYcsbTheta,
                .misses = 0};
  const std::string wrong = flags.suite.fill(&suite);
  if (!wrong.empty()) {
    console::say("error: " + wrong);
    return console::kExitUsage;
  }
  warn_of_environment();
  const Status measured = report_machine(suite);
  if (!measured.ok()) {
    console::say_error("the machine cannot be measured", measured, "choose another --db");
    return console::kExitFailed;
  }
  const auto steps = ycsb_steps(flags.suite, runs.value(), flags.target);
  return run_suite(suite, steps,
                   [&](const Step& step, const StepResult& result, const DriverOutcome& outcome) {
                     report(suite, step, result, outcome);
                   });
}

}  // namespace

console::Command add_bench_ycsb(console::App* parent) {
  auto flags = std::make_shared<YcsbFlags>();
  console::App* app = parent->add_subcommand(
      "ycsb", "Load records and run YCSB workloads; they are in bench/workloads");
  app->add_option("-P", flags->files, "Property file; several: later ones win")->expected(1, 16);
  app->add_option("-p", flags->properties, "A property as name=value; wins over files")
      ->expected(1, 1)
      ->take_all();
  app->add_option(
         "--next", flags->next,
         "Another workload's file, run behind on the same records: its properties win over "
         "those of -P. Of all workloads one may insert records; others may come again")
      ->expected(1, 16);
  app->add_option("--target", flags->target, "Operations per second of all threads; 0: no limit")
      ->capture_default_str();
  flags->suite.add_to(app);
  return {app, [flags] { return run_ycsb(*flags); }};
}

}  // namespace breccia::bench
