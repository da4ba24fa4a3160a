#include "bench/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/places.h"
#include "bench/report.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::bench {

namespace {

double us(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

// Reads the state back in groups and adds every result to *hash.
Status read_state(Engine* engine, const Step& step, ResultHash* hash) {
  constexpr std::uint64_t kGroup = 4096;
  constexpr std::uint64_t kStateId = 1ULL << 60;  // apart from the ids of requests
  const auto stream = step.state();
  const auto session = engine->session({.every = 1, .id_offset = kStateId}, stream->key_size_max());
  for (std::uint64_t done = 0; done < step.state_requests; done += kGroup) {
    const auto count = static_cast<std::uint32_t>(std::min(kGroup, step.state_requests - done));
    BRECCIA_TRY(session->build(*stream, done, count, 0));
    BRECCIA_TRY(session->run(0, hash));
  }
  return Status();
}

class SuiteRun {
 public:
  SuiteRun(const SuiteConfig& config, const std::vector<Step>& steps, const OnStep& on_step)
      : config_(config), steps_(steps), on_step_(on_step), progress_(config.live) {}

  Status run_engine(const std::string& name, const Place& place, std::uint32_t round) {
    EngineConfig engine_config = config_.engine;
    engine_config.engine = name;
    engine_config.transactions = std::any_of(
        steps_.begin(), steps_.end(), [](const Step& step) { return step.driver.transactions; });
    if (!config_.use_existing_db) BRECCIA_TRY(make_fresh(place));
    BRECCIA_TAKE(const std::unique_ptr<Engine> engine, open_engine(engine_config, place));
    for (const Step& step : steps_) {
      if (step.flush) {
        BRECCIA_TRY(engine->flush());
        continue;
      }
      BRECCIA_TRY(run_step(engine.get(), name, step, round));
    }
    return Status();
  }

  [[nodiscard]] const std::vector<StepResult>& results() const { return results_; }

 private:
  Status run_step(Engine* engine, const std::string& name, const Step& step, std::uint32_t round) {
    DriverOutcome outcome;
    const auto live = [&](const LiveFigures& now) {
      progress_.show(fmt::format("{} {}: {:.0f} s, {} ops, {:.0f} ops/s, p99 {:.1f} us", name,
                                 step.name, now.seconds, console::with_commas(now.requests),
                                 now.requests_per_s, now.p99_us));
    };
    drive(engine, step.driver, step.streams, live, &outcome);
    progress_.clear();
    BRECCIA_TRY(outcome.status);
    ResultHash hash = outcome.hash;
    if (step.comparable && step.state) BRECCIA_TRY(read_state(engine, step, &hash));
    if (hash.failed() > 0) {
      return Status::Corruption(fmt::format("{} sampled lookups failed", hash.failed()));
    }
    StepResult result;
    result.step = step.name;
    result.engine = name;
    result.backend = engine->backend();
    result.round = round;
    result.requests = outcome.requests;
    result.seconds = outcome.seconds;
    result.p50_us = us(outcome.latency.percentile(50));
    result.p99_us = us(outcome.latency.percentile(99));
    result.p999_us = us(outcome.latency.percentile(99.9));
    result.hashed = step.comparable && hash.count() > 0;
    result.hash = hash.digest();
    result.reads_sampled = outcome.hash.count();
    result.reads_found = outcome.hash.found();
    results_.push_back(result);
    on_step_(step, result, outcome);
    return Status();
  }

  const SuiteConfig& config_;
  const std::vector<Step>& steps_;
  const OnStep& on_step_;
  console::ProgressLine progress_;
  std::vector<StepResult> results_;
};

std::string advice(const Status& status) {
  if (status.IsNotSupported()) return "use --backend=auto or --backend=host";
  if (!status.IsInvalidArgument()) return "see `breccia doctor --db`";
  return "choose another --db or --wal_dir, or pass --use_existing_db to run on what is there";
}

int failed(const std::string& engine, const Place& place, const Status& status) {
  console::say_error(fmt::format("benchmark on {} in {}", engine, place.db), status,
                     advice(status));
  return console::kExitFailed;
}

int compare(const SuiteConfig& config, SuiteRun* run, const std::vector<Step>& steps) {
  for (std::uint32_t round = 0; round < config.rounds; ++round) {
    // The order turns each round, so that warmth and wear of the machine favour nobody.
    std::vector<std::string> engines = config.compare;
    std::rotate(engines.begin(), engines.begin() + round % engines.size(), engines.end());
    for (const std::string& engine : engines) {
      const Place place = nested(config.place, fmt::format("{}-{}", engine, round));
      Status status = run->run_engine(engine, place, round);
      if (status.ok()) status = remove_marked(place);
      if (!status.ok()) return failed(engine, place, status);
    }
  }
  if (!config.json) print_comparison(config, steps, run->results());
  const std::vector<std::string> wrong = mismatches(run->results());
  for (const std::string& step : wrong) {
    console::say(
        fmt::format("error: {}: the engines returned different results for the same requests; "
                    "look at result_hash with --json, and repeat with --threads=1 --verify",
                    step));
  }
  return wrong.empty() ? console::kExitOk : console::kExitMismatch;
}

}  // namespace

std::vector<std::string> mismatches(const std::vector<StepResult>& results) {
  std::map<std::string, std::uint64_t> hashes;
  std::vector<std::string> wrong;
  for (const StepResult& result : results) {
    if (!result.hashed) continue;
    const auto [first, fresh] = hashes.emplace(result.step, result.hash);
    const bool known = std::find(wrong.begin(), wrong.end(), result.step) != wrong.end();
    if (!fresh && first->second != result.hash && !known) wrong.push_back(result.step);
  }
  return wrong;
}

int run_suite(const SuiteConfig& config, const std::vector<Step>& steps, const OnStep& on_step) {
  SuiteRun run(config, steps, on_step);
  if (!config.compare.empty()) return compare(config, &run, steps);
  const Status status = run.run_engine(config.engine.engine, config.place, 0);
  return status.ok() ? console::kExitOk : failed(config.engine.engine, config.place, status);
}

}  // namespace breccia::bench
