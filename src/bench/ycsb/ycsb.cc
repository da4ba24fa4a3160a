#include "bench/ycsb/ycsb.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <tuple>

#include "base/assert.h"
#include "bench/database.h"
#include "bench/key_choice.h"
#include "bench/ycsb/generators.h"

namespace breccia::bench {

namespace {

constexpr std::string_view kPrefix = "user";
constexpr std::size_t kDigitsMax = 20;

// All threads make the same number of requests, so a total that does not divide is rounded up.
std::uint64_t per_thread(std::uint64_t total, std::uint32_t threads) {
  return (total + threads - 1) / threads;
}

// Requests of one kind on records: of blocks of `one_in` records one each, `count` blocks from
// `first` on; behind the last one it begins again.
class LoadStream final : public Stream {
 public:
  LoadStream(const YcsbWorkload& workload, std::shared_ptr<const ValueSource> values, Kind kind,
             std::uint64_t first, std::uint64_t count, std::uint64_t one_in)
      : workload_(workload),
        values_(std::move(values)),
        kind_(kind),
        first_(first),
        count_(count),
        one_in_(one_in) {}

  void fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const override {
    chunk->count = count;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t record = record_of(first + i);
      char* const key = chunk->key_bytes.data() + i * chunk->stride;
      chunk->kind[i] = kind_;
      chunk->key[i] = Slice(key, write_ycsb_key(workload_, record, key));
      chunk->value[i] = values_->at(record, 0);
    }
  }

  [[nodiscard]] std::size_t key_size_max() const override { return ycsb_key_size_max(workload_); }
  [[nodiscard]] bool allows(std::uint64_t number, Status::Code code,
                            const Slice& value) const override {
    return code == Status::kOk && value == values_->at(record_of(number), 0);
  }
  [[nodiscard]] bool allows_scan(std::uint64_t /*number*/, Status::Code /*code*/,
                                 std::uint64_t /*entries*/) const override {
    return false;  // it makes none
  }

 private:
  [[nodiscard]] std::uint64_t record_of(std::uint64_t request) const {
    return one_of_block(first_ + request % count_, one_in_, workload_.record_count);
  }

  const YcsbWorkload workload_;
  const std::shared_ptr<const ValueSource> values_;
  const Kind kind_;
  const std::uint64_t first_;
  const std::uint64_t count_;
  const std::uint64_t one_in_;
};

class RunStream final : public Stream {
 public:
  RunStream(const YcsbWorkload& workload, std::shared_ptr<const ValueSource> values,
            YcsbChoices choices)
      : workload_(workload), values_(std::move(values)), choices_(std::move(choices)) {}

  void fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const override {
    chunk->count = count;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t record = choices_.record(choice_of(first + i));
      char* const key = chunk->key_bytes.data() + i * chunk->stride;
      chunk->kind[i] = choices_.kind(choice_of(first + i));
      chunk->scan_entries[i] = choices_.scan_entries(choice_of(first + i));
      chunk->key[i] = Slice(key, write_ycsb_key(workload_, record, key));
      chunk->value[i] = values_->at(record, 0);
    }
  }

  [[nodiscard]] std::size_t key_size_max() const override { return ycsb_key_size_max(workload_); }
  // Whatever is looked up was loaded, or inserted before, and its value never changes.
  [[nodiscard]] bool allows(std::uint64_t number, Status::Code code,
                            const Slice& value) const override {
    return code == Status::kOk && value == values_->at(choices_.record(choice_of(number)), 0);
  }
  // The first entry is there, for the same reason.
  [[nodiscard]] bool allows_scan(std::uint64_t number, Status::Code code,
                                 std::uint64_t entries) const override {
    return code == Status::kOk && entries > 0 &&
           entries <= choices_.scan_entries(choice_of(number));
  }

 private:
  // Behind the last one the first comes again.
  [[nodiscard]] std::uint64_t choice_of(std::uint64_t request) const {
    return request % choices_.size();
  }

  const YcsbWorkload workload_;
  const std::shared_ptr<const ValueSource> values_;
  const YcsbChoices choices_;
};

Kind choose_kind(const YcsbWorkload& workload, base::Random* random) {
  double left = random->unit() * workload.all();
  if ((left -= workload.read) < 0) return Kind::kGet;
  if ((left -= workload.update) < 0) return Kind::kUpdate;
  if ((left -= workload.insert) < 0) return Kind::kInsert;
  if ((left -= workload.scan) < 0) return Kind::kScan;
  // Rounding may leave a little above zero where the last proportion is zero.
  return workload.read_modify_write > 0 ? Kind::kReadModifyWrite : Kind::kGet;
}

Step load_step(const SuiteFlags& flags, const YcsbWorkload& workload,
               const std::shared_ptr<const ValueSource>& values) {
  Step step;
  step.name = "load";
  const std::uint64_t count = per_thread(workload.record_count, flags.threads);
  step.driver = flags.driver(count);
  step.driver.by_kind = true;
  step.streams.counted = [workload, values, count](std::uint32_t thread) {
    // The last threads may find nothing left: they write the last record again.
    const std::uint64_t first = std::min(thread * count, workload.record_count - 1);
    const std::uint64_t own = std::min(count, workload.record_count - first);
    return std::make_unique<LoadStream>(workload, values, Kind::kInsert, first, own, 1);
  };
  return step;
}

// Every record once, by all threads.
void warm(const SuiteFlags& flags, const YcsbWorkload& workload,
          const std::shared_ptr<const ValueSource>& values, Step* step) {
  const std::uint64_t count = per_thread(workload.record_count, flags.threads);
  step->warming_driver = flags.driver(count);
  step->warming_driver.prebuilt = false;
  step->warming_driver.ready = false;
  step->warming.counted = [workload, values, count](std::uint32_t thread) {
    const std::uint64_t first = std::min(thread * count, workload.record_count - 1);
    const std::uint64_t own = std::min(count, workload.record_count - first);
    return std::make_unique<LoadStream>(workload, values, Kind::kGet, first, own, 1);
  };
}

Step run_step(const SuiteFlags& flags, const YcsbRun& run, std::uint64_t seed,
              const std::shared_ptr<const ValueSource>& values) {
  const YcsbWorkload& workload = run.workload;
  Step step;
  step.name = run.name;
  step.driver = flags.driver(per_thread(workload.operation_count, flags.threads));
  step.driver.by_kind = true;
  step.driver.duration_s = workload.seconds;
  step.reads = true;
  step.state = state_of(flags.state);
  step.only_reads = workload.writes() <= 0;
  step.scans = workload.scan > 0 && workload.read + workload.read_modify_write <= 0;
  // What a scan meets of other threads' inserts, or of its batch's, is nobody's promise.
  step.comparable = (workload.scan <= 0 || workload.insert <= 0) && workload.seconds <= 0;
  warm(flags, workload, values, &step);
  const std::uint32_t threads = flags.threads;
  step.streams.counted = [workload, values, seed, threads](std::uint32_t thread) {
    return std::make_unique<RunStream>(workload, values,
                                       YcsbChoices(workload, seed, thread, threads));
  };
  return step;
}

void print_kind(const char* name, const base::Histogram& latency) {
  const auto us = [](std::uint64_t ns) { return (ns + 500) / 1000; };
  fmt::print("[{}], Operations, {}\n", name, latency.count());
  fmt::print("[{}], AverageLatency(us), {:.3f}\n", name, latency.mean() / 1000);
  fmt::print("[{}], MinLatency(us), {}\n", name, us(latency.min()));
  fmt::print("[{}], MaxLatency(us), {}\n", name, us(latency.max()));
  fmt::print("[{}], 50thPercentileLatency(us), {}\n", name, us(latency.percentile(50)));
  fmt::print("[{}], 95thPercentileLatency(us), {}\n", name, us(latency.percentile(95)));
  fmt::print("[{}], 99thPercentileLatency(us), {}\n", name, us(latency.percentile(99)));
}

}  // namespace

std::size_t ycsb_key_size_max(const YcsbWorkload& workload) {
  return kPrefix.size() + std::max<std::size_t>(kDigitsMax, workload.zero_padding);
}

std::size_t write_ycsb_key(const YcsbWorkload& workload, std::uint64_t number, char* to) {
  const std::uint64_t shown = workload.hashed_keys ? ycsb_hash(number) : number;
  char digits[kDigitsMax];
  const char* const end = std::to_chars(digits, digits + kDigitsMax, shown).ptr;
  const auto count = static_cast<std::size_t>(end - digits);
  const std::size_t zeros = workload.zero_padding > count ? workload.zero_padding - count : 0;
  std::memcpy(to, kPrefix.data(), kPrefix.size());
  std::memset(to + kPrefix.size(), '0', zeros);
  std::memcpy(to + kPrefix.size() + zeros, digits, count);
  return kPrefix.size() + zeros + count;
}

YcsbChoices::YcsbChoices(const YcsbWorkload& workload, std::uint64_t seed, std::uint32_t thread,
                         std::uint32_t threads) {
  const std::uint64_t records = workload.record_count;
  base::Random random(base::mix64(seed) ^ base::mix64(thread));
  ScrambledZipfianGenerator scrambled;
  ZipfianGenerator lengths(workload.scan_length_max);
  ZipfianGenerator latest(workload.distribution == Distribution::kLatest ? records : 1);
  std::uint64_t inserted = 0;
  packed_.resize(per_thread(workload.operation_count, threads));
  for (std::uint64_t& packed : packed_) {
    const Kind kind = choose_kind(workload, &random);
    std::uint64_t record = 0;
    if (kind == Kind::kInsert) {
      record = records + thread + inserted++ * threads;
    } else if (workload.distribution == Distribution::kLatest) {
      const std::uint64_t age = latest.next(records + inserted, &random);
      record = age < inserted ? records + thread + (inserted - 1 - age) * threads
                              : records - 1 - (age - inserted);
    } else if (workload.distribution == Distribution::kZipfian) {
      record = scrambled.next(records, &random);
    } else {
      record = random.below(records);
    }
    BRECCIA_ASSERT(record < 1ULL << kLengthShift);
    packed = static_cast<std::uint64_t>(kind) << kKindShift | record;
    if (kind != Kind::kScan) continue;
    const std::uint64_t most = workload.scan_length_max;
    const std::uint64_t length =
        1 + (workload.zipfian_scan_lengths ? lengths.next(most, &random) : random.below(most));
    packed |= length << kLengthShift;
  }
}

Status check_runs(const std::vector<YcsbRun>& runs) {
  BRECCIA_ASSERT(!runs.empty());
  const YcsbRun& first = runs.front();
  const auto records = [](const YcsbWorkload& workload) {
    return std::tuple(workload.record_count, workload.value_size(), workload.hashed_keys,
                      workload.zero_padding, workload.distribution == Distribution::kUniform);
  };
  const YcsbRun* inserts = nullptr;
  for (const YcsbRun& run : runs) {
    if (records(run.workload) != records(first.workload)) {
      return Status::InvalidArgument(
          fmt::format("{} has other records than {}, or chooses among them by another law",
                      run.name, first.name),
          "recordcount, fieldcount, fieldlength, insertorder, zeropadding, requestdistribution");
    }
    if (run.workload.insert <= 0) continue;
    if (inserts != nullptr) {
      return Status::InvalidArgument(
          fmt::format("{} and {} both insert records: run them apart", inserts->name, run.name));
    }
    inserts = &run;
  }
  return Status();
}

std::vector<Step> ycsb_steps(const SuiteFlags& flags, const std::vector<YcsbRun>& runs,
                             double target_per_s) {
  BRECCIA_ASSERT(check_runs(runs).ok());
  const YcsbWorkload& records = runs.front().workload;
  const auto values = std::make_shared<const ValueSource>(records.value_size());
  std::vector<Step> steps;
  if (!flags.use_existing_db) steps.push_back(load_step(flags, records, values));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // Or each would look up what the one before has brought into the caches.
    const std::uint64_t seed = i == 0 ? flags.seed : base::mix64(flags.seed) + i;
    if (runs[i].workload.operation_count == 0) continue;
    steps.push_back(run_step(flags, runs[i], seed, values));
    const auto same = std::count_if(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(i),
                                    [&](const YcsbRun& run) { return run.name == runs[i].name; });
    if (same > 0) steps.back().name += fmt::format("#{}", same + 1);
  }
  const bool has_load = !flags.use_existing_db;
  for (Step& step : steps) {
    const bool is_load = has_load && &step == &steps.front();
    if (!is_load || steps.size() == 1) step.driver.target_per_s = target_per_s;
    const std::uint64_t one_in = flags.sample_every();
    step.read_back_requests = blocks_of(records.record_count, one_in);
    step.read_back = [records, values, count = step.read_back_requests, one_in] {
      return std::make_unique<LoadStream>(records, values, Kind::kGet, 0, count, one_in);
    };
  }
  return steps;
}

void print_ycsb_summary(const DriverOutcome& outcome) {
  fmt::print("[OVERALL], RunTime(ms), {:.0f}\n", outcome.seconds * 1000);
  fmt::print("[OVERALL], Throughput(ops/sec), {:.3f}\n",
             static_cast<double>(outcome.requests) / outcome.seconds);
  constexpr std::array<const char*, kKinds> kNames = {
      "READ", "UPDATE", "INSERT", "DELETE", "READ-MODIFY-WRITE", "MERGE", "SCAN"};
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (outcome.by_kind[kind].count() > 0) print_kind(kNames[kind], outcome.by_kind[kind]);
  }
}

}  // namespace breccia::bench
