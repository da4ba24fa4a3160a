#include "bench/db_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace breccia::bench {

namespace {

struct Benchmark {
  const char* name;
  Kind kind;
  bool sequential;
  bool writer_beside;
  bool batch_calls;
  bool transactions;  // lookups and `kind` by turns
  Lookups lookups = Lookups::kInOrder;
};

constexpr std::array<Benchmark, 11> kBenchmarks = {{
    {"fillseq", Kind::kInsert, true, false, false, false},
    {"fillrandom", Kind::kInsert, false, false, false, false},
    {"overwrite", Kind::kUpdate, false, false, false, false},
    {"readrandom", Kind::kGet, false, false, false, false},
    {"multireadrandom", Kind::kGet, false, false, true, false},
    {"deleterandom", Kind::kDelete, false, false, false, false},
    {"mergerandom", Kind::kMerge, false, false, false, false},
    {"seekrandom", Kind::kScan, false, false, false, false},
    {"transactionrandom", Kind::kUpdate, false, false, true, true},
    {"validatedrandom", Kind::kUpdate, false, false, true, true, Lookups::kAtOpening},
    {"readwhilewriting", Kind::kGet, false, true, false, false},
}};

const Benchmark* find_benchmark(const std::string& name) {
  const auto* found = std::find_if(kBenchmarks.begin(), kBenchmarks.end(),
                                   [&](const Benchmark& known) { return name == known.name; });
  return found == kBenchmarks.end() ? nullptr : found;
}

// Streams of one step share nothing but this with others: seed and thread choose the keys.
std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t step, std::uint64_t thread) {
  return base::mix64(base::mix64(base::mix64(seed) ^ step) ^ thread);
}

Step make_step(const DbBenchFlags& flags, const Benchmark& benchmark, std::uint64_t index,
               const std::shared_ptr<const ValueSource>& values) {
  const bool reads = benchmark.kind == Kind::kGet || benchmark.kind == Kind::kScan;
  Step step;
  step.name = benchmark.name;
  step.driver = flags.suite.driver(
      reads && flags.reads >= 0 ? static_cast<std::uint64_t>(flags.reads) : flags.num);
  step.driver.duration_s = flags.duration;
  step.driver.batch_calls = benchmark.batch_calls;
  step.driver.transactions = benchmark.transactions;
  step.driver.lookups = benchmark.lookups;
  step.comparable = flags.duration <= 0 && !benchmark.writer_beside;

  UniformStream::Config config;
  config.kind = benchmark.kind;
  config.sequential = benchmark.sequential;
  config.every_second_reads = benchmark.transactions;
  config.scan_entries = flags.seek_nexts;
  config.key_count = flags.num;
  config.key_size = flags.key_size;
  config.generation = index;
  config.values = values;
  const std::uint64_t seed = flags.suite.seed;
  // What a transaction reads must not depend on who was first: each thread has keys of its own.
  const std::uint32_t parts = benchmark.transactions ? flags.suite.threads : 1;
  step.streams.counted = [config, seed, index, parts](std::uint32_t thread) {
    UniformStream::Config own = config;
    own.parts = parts;
    own.part = thread % parts;
    own.seed = stream_seed(seed, index, thread);
    return std::make_unique<UniformStream>(own);
  };
  if (benchmark.writer_beside) {
    step.streams.beside = [config, seed, index, threads = flags.suite.threads] {
      UniformStream::Config own = config;
      own.kind = Kind::kUpdate;
      own.seed = stream_seed(seed, index, threads);
      return std::make_unique<UniformStream>(own);
    };
  }
  if (!reads || flags.suite.verify) {
    config.kind = Kind::kGet;
    config.every_second_reads = false;
    config.sequential = true;
    config.step = flags.suite.state_step();
    step.state_requests = (flags.num + config.step - 1) / config.step;
    step.state = [config] { return std::make_unique<UniformStream>(config); };
  }
  return step;
}

Status check(const DbBenchFlags& flags) {
  if (flags.suite.prebuilt && flags.duration > 0) {
    return Status::InvalidArgument("--prebuilt needs a number of requests, not --duration");
  }
  const bool merges = std::find(flags.benchmarks.begin(), flags.benchmarks.end(), "mergerandom") !=
                      flags.benchmarks.end();
  if (merges && flags.value_size != sizeof(std::int64_t)) {
    return Status::InvalidArgument("mergerandom adds numbers of 8 bytes: it needs --value_size 8");
  }
  if (flags.key_size < 8 && flags.num > std::uint64_t{1} << (8 * flags.key_size)) {
    return Status::InvalidArgument(
        fmt::format("{} keys do not fit in --key_size {}", flags.num, flags.key_size));
  }
  return Status();
}

}  // namespace

Result<std::vector<Step>> db_bench_steps(const DbBenchFlags& flags) {
  BRECCIA_TRY(check(flags));
  const auto values = std::make_shared<const ValueSource>(flags.value_size);
  std::vector<Step> steps;
  for (const std::string& name : flags.benchmarks) {
    if (name == "flush") {
      steps.push_back({});
      steps.back().name = name;
      steps.back().flush = true;
      continue;
    }
    const Benchmark* benchmark = find_benchmark(name);
    if (benchmark == nullptr) {
      return Status::InvalidArgument(
          fmt::format("no benchmark `{}`; there are fillseq, fillrandom, overwrite, readrandom, "
                      "multireadrandom, deleterandom, mergerandom, seekrandom, "
                      "transactionrandom, validatedrandom, readwhilewriting and flush",
                      name));
    }
    if (flags.suite.prebuilt && (benchmark->writer_beside || benchmark->transactions)) {
      return Status::InvalidArgument(name + " cannot be --prebuilt");
    }
    if (benchmark->transactions && flags.num < flags.suite.threads) {
      return Status::InvalidArgument(name + " needs as many keys (--num) as --threads");
    }
    Step step = make_step(flags, *benchmark, steps.size() + 1, values);
    const auto same = std::count_if(steps.begin(), steps.end(), [&](const Step& earlier) {
      return earlier.name.substr(0, earlier.name.find('#')) == name;
    });
    if (same > 0) step.name += fmt::format("#{}", same + 1);
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace breccia::bench
