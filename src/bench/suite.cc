#include "bench/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/database.h"
#include "bench/engines/advice.h"
#include "bench/places.h"
#include "bench/report.h"
#include "bench/rocksdb_probe.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "tree/read_defaults.h"

namespace breccia::bench {

namespace {

double us(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

// Reads back what the step should have left, in groups, and looks at every result.
Result<Findings> read_state(Engine* engine, const Step& step) {
  constexpr std::uint64_t kGroup = 4096;
  constexpr std::uint64_t kStateId = 1ULL << 60;  // apart from the ids of requests
  const auto stream = step.read_back();
  const auto session = engine->session({.every = 1}, stream->key_size_max());
  Audit audit(stream.get(), kStateId);
  for (std::uint64_t done = 0; done < step.read_back_requests; done += kGroup) {
    const auto count = static_cast<std::uint32_t>(std::min(kGroup, step.read_back_requests - done));
    BRECCIA_TRY(session->build(*stream, done, count, 0));
    BRECCIA_TRY(session->run(0, &audit));
  }
  return audit.findings();
}

Status check(const Findings& findings) {
  if (findings.hash.failed() > 0) {
    return Status::Corruption(fmt::format("{} sampled lookups failed", findings.hash.failed()));
  }
  if (findings.wrong == 0) return Status();
  return Status::Corruption(
      fmt::format("{} sampled lookups returned what no write can have left", findings.wrong));
}

StepResult result_of(const Step& step, const DriverOutcome& outcome) {
  StepResult result;
  result.step = step.name;
  result.requests = outcome.requests;
  result.seconds = outcome.seconds;
  result.p50_us = us(outcome.latency.percentile(50));
  result.p99_us = us(outcome.latency.percentile(99));
  result.p999_us = us(outcome.latency.percentile(99.9));
  result.max_us = us(outcome.latency.max());
  result.call_share = outcome.call_share();
  result.filling_included = !step.driver.prebuilt;
  result.per_second = outcome.per_second;
  result.disk_bytes = outcome.disk_bytes;
  result.reads_sampled = outcome.findings.hash.count();
  result.reads_found = outcome.findings.hash.found();
  return result;
}

class SuiteRun {
 public:
  SuiteRun(const SuiteConfig& config, const std::vector<Step>& steps, const OnStep& on_step)
      : config_(config),
        steps_(steps),
        on_step_(on_step),
        progress_(config.live),
        probe_(config_of("rocksdb"), steps),
        tuning_(config.engine.rocksdb),
        loading_(config.engine.rocksdb) {}

  /// Chooses how RocksDB is used; its databases for that lie in `place`.
  Status tune(const Place& place) {
    BRECCIA_TAKE(tuning_, probe_.choose_writes(place));
    BRECCIA_TAKE(loading_, probe_.choose_loading(tuning_, place));
    return probe_.choose_transactions(tuning_, place);
  }

  Status run_engine(const std::string& name, const Place& place, std::uint32_t round) {
    EngineConfig engine_config = config_of(name);
    if (name == "rocksdb") engine_config.rocksdb = tuning_;
    if (!config_.use_existing_db) BRECCIA_TRY(make_fresh(place));
    Database database(engine_config, place);
    BRECCIA_TRY(database.open());
    if (!config_.use_existing_db) BRECCIA_TRY(database.engine()->check_new());
    if (round == 0) say_what_was_cut(name, database.engine()->in_effect());
    for (const Step& step : steps_) {
      if (step.flush || step.compact) {
        BRECCIA_TRY(step.flush ? database.flush() : database.compact());
        continue;
      }
      if (step.reads) BRECCIA_TRY(prepare(&database, name, step));
      if (name == "rocksdb" && !step.reads) {
        database.engine()->retune(probe_.chosen(step, tuning_));
      }
      const bool loads = name == "rocksdb" && step.loads;
      if (loads) BRECCIA_TRY(database.open_for(loading_));
      if (!step.only_reads) database.was_written();
      BRECCIA_TRY(run_step(database.engine(), name, step, round));
      if (loads) BRECCIA_TRY(database.open_for(tuning_));
    }
    return config_.compare.empty() ? Status() : database.engine()->clean();
  }

  [[nodiscard]] const std::vector<StepResult>& results() const { return results_; }

 private:
  [[nodiscard]] EngineConfig config_of(const std::string& name) const {
    EngineConfig config = config_.engine;
    config.engine = name;
    config.keys = config_.data.keys;
    config.key_size = config_.data.key_size;
    config.value_size = config_.data.value_size;
    config.transactions = std::any_of(steps_.begin(), steps_.end(),
                                      [](const Step& step) { return step.driver.transactions; });
    const bool is_best = name == "rocksdb" && config_.rocksdb_best;
    // A Store chooses filters where nobody does.
    if (config.bloom_bits < 0 && (is_best || name == "breccia")) {
      config.bloom_bits = tree::kBloomBitsPerKey;
    }
    if (!is_best) return config;
    config.rocksdb.hash_index = true;
    config.rocksdb.row_cache_bytes = tree::default_entry_cache_bytes();
    // Breccia's memtables are memory for what is read, too.
    config.cache_bytes += config.memtable_bytes;
    return config;
  }

  // A figure of less memory than was asked for must not go by unseen. RocksDB rounds to pages.
  void say_what_was_cut(const std::string& name, const InEffect& effect) const {
    const std::uint64_t asked = config_.engine.memtable_bytes;
    if (effect.memtable_bytes == 0 || effect.memtable_bytes >= asked - asked / 100) return;
    console::say(fmt::format("warning: {} takes {} for writes, not the {} of --memtable_bytes",
                             name, console::human_bytes(static_cast<double>(effect.memtable_bytes)),
                             console::human_bytes(static_cast<double>(asked))));
  }

  Status prepare(Database* database, const std::string& name, const Step& step) {
    BRECCIA_TRY(database->bring_into(step.state, step));
    if (name != "rocksdb" || !config_.rocksdb_best) return Status();
    const bool cools = step.state == State::kTreeCold && !probe_.knows(step);
    BRECCIA_TAKE(const RocksdbTuning tuning,
                 probe_.choose_reads(database->engine(), step, tuning_));
    if (cools) BRECCIA_TRY(database->bring_into(step.state, step));
    database->engine()->retune(tuning);
    return Status();
  }

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
    if (step.loads) BRECCIA_TRY(flush_timed(engine, step.driver, &outcome));
    Findings findings = outcome.findings;
    if (step.comparable && step.read_back) {
      BRECCIA_TAKE(const Findings left, read_state(engine, step));
      findings.merge(left);
    }
    BRECCIA_TRY(check(findings));
    StepResult result = result_of(step, outcome);
    result.hashed = step.comparable && findings.hash.count() > 0;
    result.hash = findings.hash.digest();
    result.engine = name;
    result.backend = engine->backend();
    result.round = round;
    result.in_effect = engine->in_effect();
    result.settings = engine->settings();
    results_.push_back(result);
    on_step_(step, result, outcome);
    return Status();
  }

  const SuiteConfig& config_;
  const std::vector<Step>& steps_;
  const OnStep& on_step_;
  console::ProgressLine progress_;
  RocksdbProbe probe_;
  RocksdbTuning tuning_;
  RocksdbTuning loading_;
  std::vector<StepResult> results_;
};

int failed(const std::string& engine, const Place& place, const Status& status) {
  console::say_error(fmt::format("benchmark on {} in {}", engine, place.db), status,
                     advice(engine, status));
  return console::kExitFailed;
}

int compare(const SuiteConfig& config, SuiteRun* run, const std::vector<Step>& steps) {
  if (config.rocksdb_best) {
    const Place place = nested(config.place, "probe");
    const Status status = run->tune(place);
    if (!status.ok()) return failed("rocksdb", place, status);
  }
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
