#include "bench/db_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "bench/contents.h"
#include "bench/database.h"
#include "bench/key_stream.h"

namespace breccia::bench {

namespace {

struct Benchmark {
  const char* name;
  Kind kind;
  Order order = Order::kRandom;
  bool writer_beside = false;
  bool batch_calls = false;
  bool transactions = false;  // lookups and `kind` by turns
  Lookups lookups = Lookups::kInOrder;
  bool loads = false;  // its time ends when all lies in files

  [[nodiscard]] bool reads() const { return kind == Kind::kGet || kind == Kind::kScan; }
};

constexpr std::array<Benchmark, 13> kBenchmarks = {{
    {.name = "fillseq", .kind = Kind::kInsert, .order = Order::kSequence},
    {.name = "fillrandom", .kind = Kind::kInsert},
    {.name = "filluniquerandom", .kind = Kind::kInsert, .order = Order::kEachOnce},
    {.name = "bulkload",
     .kind = Kind::kInsert,
     .order = Order::kEachOnce,
     .batch_calls = true,
     .loads = true},
    {.name = "overwrite", .kind = Kind::kUpdate},
    {.name = "readrandom", .kind = Kind::kGet},
    {.name = "multireadrandom", .kind = Kind::kGet, .batch_calls = true},
    {.name = "deleterandom", .kind = Kind::kDelete},
    {.name = "mergerandom", .kind = Kind::kMerge},
    {.name = "seekrandom", .kind = Kind::kScan},
    {.name = "transactionrandom", .kind = Kind::kUpdate, .batch_calls = true, .transactions = true},
    {.name = "validatedrandom",
     .kind = Kind::kUpdate,
     .batch_calls = true,
     .transactions = true,
     .lookups = Lookups::kAtOpening},
    {.name = "readwhilewriting", .kind = Kind::kGet, .writer_beside = true},
}};

// Choices by Zipf's law that a thread keeps, at most: 128 MiB.
constexpr std::uint64_t kSkewChoicesMax = 16ULL << 20;

const Benchmark* find_benchmark(const std::string& name) {
  const auto* found = std::find_if(kBenchmarks.begin(), kBenchmarks.end(),
                                   [&](const Benchmark& known) { return name == known.name; });
  return found == kBenchmarks.end() ? nullptr : found;
}

std::string benchmark_names() {
  std::string names;
  for (const Benchmark& benchmark : kBenchmarks) names += std::string(benchmark.name) + ", ";
  return names + "and flush";
}

// Streams of one step share nothing but this with others: seed and thread choose the keys.
std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t step, std::uint64_t thread) {
  return base::mix64(base::mix64(base::mix64(seed) ^ step) ^ thread);
}

// Whether all threads together write each key once, a part each.
bool shares_keys(const DbBenchFlags& flags, const Benchmark& benchmark) {
  return benchmark.order == Order::kEachOnce ||
         (benchmark.order == Order::kSequence && flags.keys.keys > 0);
}

// The part of thread `thread`: the last ones may find nothing left and take the last place again.
void take_part(KeyStream::Config* config, std::uint64_t places, std::uint32_t thread,
               std::uint32_t threads) {
  const std::uint64_t part = blocks_of(places, threads);
  config->first = std::min(thread * part, places - 1);
  config->count = std::min(part, places - config->first);
}

std::uint64_t requests_of(const DbBenchFlags& flags, const Benchmark& benchmark) {
  if (shares_keys(flags, benchmark)) {
    return blocks_of(flags.keys.set(flags.num).count(), flags.suite.threads);
  }
  return benchmark.reads() && flags.reads >= 0 ? static_cast<std::uint64_t>(flags.reads)
                                               : flags.num;
}

DriverConfig driver_of(const DbBenchFlags& flags, const Benchmark& benchmark) {
  DriverConfig driver = flags.suite.driver(requests_of(flags, benchmark));
  driver.duration_s = flags.duration;
  driver.batch_calls = benchmark.batch_calls;
  driver.transactions = benchmark.transactions;
  driver.lookups = benchmark.lookups;
  return driver;
}

// What a step makes possible as soon as it begins.
void begin_step(const Benchmark& benchmark, std::uint64_t generation, Contents* contents) {
  if (benchmark.kind == Kind::kMerge) contents->forget();
  if (benchmark.kind == Kind::kDelete) contents->delete_some();
  const bool writes = benchmark.kind == Kind::kInsert || benchmark.kind == Kind::kUpdate;
  if (writes || benchmark.writer_beside) contents->write_some(generation);
}

KeyStream::Config stream_config(const DbBenchFlags& flags, const Benchmark& benchmark,
                                std::uint64_t index, const Contents& contents,
                                const std::shared_ptr<const ValueSource>& values) {
  KeyStream::Config config;
  config.kind = benchmark.kind;
  config.order = benchmark.order;
  config.every_second_reads = benchmark.transactions;
  config.scan_entries = flags.seek_nexts;
  config.skew = flags.keys.skew;
  config.skew_choices = flags.duration > 0
                            ? kSkewChoicesMax
                            : std::min(kSkewChoicesMax, requests_of(flags, benchmark));
  config.misses = flags.keys.misses;
  config.shuffle_seed = base::mix64(flags.suite.seed);
  config.generation = index;
  config.keys = flags.keys.set(flags.num);
  config.values = values;
  config.contents = contents;
  return config;
}

// Lookups of keys in sequence, one in `one_in`.
KeyStream::Config look_through(KeyStream::Config config, std::uint64_t one_in) {
  config.kind = Kind::kGet;
  config.order = Order::kSequence;
  config.every_second_reads = false;
  config.one_in = one_in;
  config.misses = 0;
  return config;
}

// A pass over the keys by all threads, before the clock.
DriverStreams warming(const DbBenchFlags& flags, const KeyStream::Config& config,
                      DriverConfig* driver) {
  const std::uint64_t places = config.keys->count();
  const std::uint32_t threads = flags.suite.threads;
  *driver = flags.suite.driver(blocks_of(places, threads));
  driver->prebuilt = false;
  driver->ready = false;
  DriverStreams streams;
  streams.counted = [own = look_through(config, /*one_in=*/1), places,
                     threads](std::uint32_t thread) {
    KeyStream::Config part = own;
    take_part(&part, places, thread, threads);
    return std::make_unique<KeyStream>(std::move(part));
  };
  return streams;
}

// `readrandom@clean:20000`: a benchmark, the state that it is to find, and its rate.
struct Named {
  std::string benchmark;
  std::string state;
  double rate = 0;
};

Result<Named> split(const std::string& name, const DbBenchFlags& flags) {
  Named named{name, flags.suite.state, flags.target_rate};
  const std::size_t colon = name.find(':');
  if (colon != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + colon + 1, end, named.rate);
    if (error != std::errc() || stop != end || !(named.rate > 0) || std::isinf(named.rate)) {
      return Status::InvalidArgument(
          fmt::format("`{}`: no rate above zero behind the colon", name));
    }
    named.benchmark.resize(colon);
  }
  const std::size_t at = named.benchmark.find('@');
  if (at == std::string::npos) return named;
  named.state = named.benchmark.substr(at + 1);
  named.benchmark.resize(at);
  return named;
}

Step make_step(const DbBenchFlags& flags, const Benchmark& benchmark, std::uint64_t index,
               const std::shared_ptr<const ValueSource>& values, Contents* contents) {
  begin_step(benchmark, index, contents);
  const KeyStream::Config config = stream_config(flags, benchmark, index, *contents, values);
  const std::uint32_t threads = flags.suite.threads;
  const std::uint64_t seed = flags.suite.seed;
  Step step;
  step.driver = driver_of(flags, benchmark);
  step.comparable = flags.duration <= 0 && !benchmark.writer_beside;
  step.reads = benchmark.reads();
  step.only_reads = step.reads && !benchmark.writer_beside;
  step.loads = benchmark.loads;
  step.scans = benchmark.kind == Kind::kScan;
  step.merges = benchmark.kind == Kind::kMerge;
  if (step.reads) step.warming = warming(flags, config, &step.warming_driver);

  const bool shared = shares_keys(flags, benchmark);
  // What a transaction reads must not depend on who was first: each thread has keys of its own.
  const std::uint32_t parts = benchmark.transactions ? threads : 1;
  step.streams.counted = [config, seed, index, parts, shared, threads](std::uint32_t thread) {
    KeyStream::Config own = config;
    own.parts = parts;
    own.part = thread % parts;
    if (shared) take_part(&own, own.keys->count(), thread, threads);
    own.seed = stream_seed(seed, index, thread);
    return std::make_unique<KeyStream>(std::move(own));
  };
  if (benchmark.writer_beside) {
    step.streams.beside = [config, seed, index, threads] {
      KeyStream::Config own = config;
      own.kind = Kind::kUpdate;
      own.seed = stream_seed(seed, index, threads);
      return std::make_unique<KeyStream>(std::move(own));
    };
  }
  const bool all = benchmark.order != Order::kRandom && flags.duration <= 0;
  if (all) contents->write_all(index);
  if (!step.reads || flags.suite.verify) {
    KeyStream::Config look = look_through(config, flags.suite.sample_every());
    look.contents = *contents;
    step.read_back_requests = blocks_of(config.keys->count(), look.one_in);
    step.read_back = [look] { return std::make_unique<KeyStream>(look); };
  }
  return step;
}

Status check(const DbBenchFlags& flags) {
  if (flags.suite.prebuilt && flags.duration > 0) {
    return Status::InvalidArgument("--prebuilt needs a number of requests, not --duration");
  }
  if (flags.suite.ready && flags.duration > 0) {
    return Status::InvalidArgument("--ready needs a number of requests, not --duration");
  }
  const bool merges = std::find(flags.benchmarks.begin(), flags.benchmarks.end(), "mergerandom") !=
                      flags.benchmarks.end();
  if (merges && flags.value_size != sizeof(std::int64_t)) {
    return Status::InvalidArgument("mergerandom adds numbers of 8 bytes: it needs --value_size 8");
  }
  if (flags.target_rate < 0 || flags.duration < 0) {
    return Status::InvalidArgument("--target-rate and --duration are not below zero");
  }
  return flags.keys.check(flags.num);
}

Status check(const DbBenchFlags& flags, const Benchmark& benchmark) {
  if (flags.suite.prebuilt && (benchmark.writer_beside || benchmark.transactions)) {
    return Status::InvalidArgument(std::string(benchmark.name) + " cannot be --prebuilt");
  }
  if (!benchmark.transactions) return Status();
  if (flags.suite.columns) {
    return Status::InvalidArgument(std::string(benchmark.name) + " has no --columns");
  }
  if (flags.keys.set(flags.num).count() < flags.suite.threads) {
    return Status::InvalidArgument(std::string(benchmark.name) +
                                   " needs as many keys as --threads");
  }
  if (flags.keys.skew > 0) {
    return Status::InvalidArgument(std::string(benchmark.name) +
                                   " gives each thread keys of its own; leave out --skew");
  }
  return Status();
}

}  // namespace

Result<std::vector<Step>> db_bench_steps(const DbBenchFlags& flags) {
  BRECCIA_TRY(check(flags));
  const auto values = std::make_shared<const ValueSource>(flags.value_size);
  Contents contents = flags.suite.use_existing_db ? Contents::unknown() : Contents();
  std::vector<Step> steps;
  for (const std::string& name : flags.benchmarks) {
    if (name == "flush" || name == "compact") {
      steps.push_back({});
      steps.back().name = name;
      (name == "flush" ? steps.back().flush : steps.back().compact) = true;
      continue;
    }
    BRECCIA_TAKE(const Named named, split(name, flags));
    const Benchmark* benchmark = find_benchmark(named.benchmark);
    if (!is_state(named.state)) {
      return Status::InvalidArgument(fmt::format("no state `{}`", named.state));
    }
    if (benchmark == nullptr) {
      return Status::InvalidArgument(
          fmt::format("no benchmark `{}`; there are {}", name, benchmark_names()));
    }
    BRECCIA_TRY(check(flags, *benchmark));
    Step step = make_step(flags, *benchmark, steps.size() + 1, values, &contents);
    step.name = name;
    step.state = state_of(named.state);
    step.driver.target_per_s = named.rate;
    const auto same = std::count_if(steps.begin(), steps.end(), [&](const Step& earlier) {
      return earlier.name.substr(0, earlier.name.find('#')) == name;
    });
    if (same > 0) step.name += fmt::format("#{}", same + 1);
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace breccia::bench
