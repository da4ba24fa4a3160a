#include <fmt/format.h>

#include "bench/commands.h"
#include "bench/db_bench.h"
#include "bench/report.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::bench {

namespace {

constexpr const char* kFooter =
    "Benchmarks, as in db_bench: fillseq fillrandom overwrite readrandom multireadrandom\n"
    "deleterandom mergerandom (adds numbers) seekrandom (reads --seek_nexts entries from a key "
    "on)\n"
    "readwhilewriting; transactionrandom, transactions of --batch_size lookups and writes by\n"
    "turns; validatedrandom, the same whose lookups are of before and validated at the end; and\n"
    "flush, which moves all into SST files between them.\n"
    "Each thread does --num requests on --num keys. Unless --use_existing_db is given, the\n"
    "database is made new; only a folder made by an earlier benchmark is replaced.";

int run_bench(const DbBenchFlags& flags) {
  SuiteConfig suite;
  suite.num = flags.num;
  suite.key_size = flags.key_size;
  suite.value_size = flags.value_size;
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
  warn_of_environment();
  return run_suite(suite, steps.value(),
                   [&](const Step& step, const StepResult& result, const DriverOutcome& outcome) {
                     report_step(suite, step, result, outcome);
                   });
}

}  // namespace

console::Command add_bench(console::App* parent) {
  auto flags = std::make_shared<DbBenchFlags>();
  console::App* app = parent->add_subcommand(
      "bench", "Measure Breccia, or RocksDB, or both in turn, by db_bench's rules");
  app->footer(kFooter);
  app->add_option("--benchmarks", flags->benchmarks, "What to run, in order, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--num", flags->num, "Keys, and requests per thread")
      ->range(1, 1ULL << 38)
      ->capture_default_str();
  app->add_option("--reads", flags->reads, "Lookups per thread; -1: as many as --num")
      ->capture_default_str();
  app->add_option("--key_size", flags->key_size, "Bytes of a key")
      ->range(1, kKeySizeMax)
      ->capture_default_str();
  app->add_option("--value_size", flags->value_size, "Bytes of a value")
      ->range(0, 1U << 30)
      ->capture_default_str();
  app->add_option("--seek_nexts", flags->seek_nexts, "seekrandom: entries to read")
      ->capture_default_str();
  app->add_option("--duration", flags->duration, "Seconds per benchmark, in place of a number")
      ->capture_default_str();
  flags->suite.add_to(app);
  return {app, [flags] { return run_bench(*flags); }};
}

}  // namespace breccia::bench
