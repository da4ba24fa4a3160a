#include <fmt/format.h>

#include "bench/commands.h"
#include "bench/db_bench.h"
#include "bench/report.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::bench {

namespace {

constexpr const char* kFooter =
    "Benchmarks, as in db_bench: fillseq fillrandom filluniquerandom (each key once, all threads\n"
    "together) bulkload (the same on an empty database, until all lies in SST files) overwrite "
    "readrandom multireadrandom deleterandom mergerandom (adds numbers)\n"
    "seekrandom (reads --seek_nexts entries from a key on)\n"
    "readwhilewriting; transactionrandom, transactions of --batch_size lookups and writes by\n"
    "turns; validatedrandom, the same whose lookups are of before and validated at the end; and\n"
    "flush, which moves all into SST files between them, or compact, which also brings these\n"
    "into one level.\n"
    "A benchmark may name the state that it is to find and its rate: readrandom@clean:20000.\n"
    "Each thread does --num requests on --num keys, or on --keys. About one result in 61 is\n"
    "compared with what the key must hold. Unless --use_existing_db is given, the\n"
    "database is made new; only a folder made by an earlier benchmark is replaced.";

int run_bench(const DbBenchFlags& flags) {
  SuiteConfig suite;
  const std::string wrong = flags.suite.fill(&suite);
  if (!wrong.empty()) {
    console::say("error: " + wrong);
    return console::kExitUsage;
  }
  auto steps = db_bench_steps(flags);
  if (!steps.ok()) {
    console::say_error("these flags make no benchmark", steps.status(), "breccia bench --help");
    return console::kExitUsage;
  }
  const KeySet keys = flags.keys.set(flags.num);
  suite.data = {.num = flags.num,
                .keys = keys.count(),
                .key_set = flags.keys.key_set,
                .key_size = static_cast<std::uint32_t>(keys.size_mean()),
                .value_size = flags.value_size,
                .skew = flags.keys.skew,
                .misses = flags.keys.misses};
  warn_of_environment();
  const Status measured = report_machine(suite);
  if (!measured.ok()) {
    console::say_error("the machine cannot be measured", measured, "choose another --db");
    return console::kExitFailed;
  }
  return run_suite(suite, steps.value(),
                   [&](const Step& step, const StepResult& result, const DriverOutcome& outcome) {
                     report_step(suite, step, result, outcome);
                   });
}

}  // namespace

void DbBenchFlags::add_to(console::App* app) {
  app->add_option("--benchmarks", benchmarks, "What to run, in order, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--num", num, "Requests per thread, and keys unless --keys says")
      ->range(1, 1ULL << 38)
      ->capture_default_str();
  app->add_option("--reads", reads, "Lookups per thread; -1: as many as --num")
      ->capture_default_str();
  app->add_option("--value_size", value_size, "Bytes of a value")
      ->range(0, 1U << 30)
      ->capture_default_str();
  app->add_option("--seek_nexts", seek_nexts, "seekrandom: entries to read")->capture_default_str();
  app->add_option("--duration", duration,
                  "Seconds per benchmark, in place of a number; seconds that stall are counted")
      ->capture_default_str();
  app->add_option("--target-rate", target_rate,
                  "Requests per second of all threads together, each with its time; a latency "
                  "counts from there, however late the request begins. 0: as fast as it goes")
      ->capture_default_str();
  keys.add_to(app);
  suite.add_to(app);
}

console::Command add_bench(console::App* parent) {
  auto flags = std::make_shared<DbBenchFlags>();
  console::App* app = parent->add_subcommand(
      "bench", "Measure Breccia, or RocksDB, or both in turn, by db_bench's rules");
  app->footer(kFooter);
  flags->add_to(app);
  return {app, [flags] { return run_bench(*flags); }};
}

}  // namespace breccia::bench
