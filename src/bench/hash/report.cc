#include "bench/hash/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/assert.h"
#include "bench/rows.h"

namespace breccia::bench::tables {

namespace {

/// What calls took, sorted.
class Percentiles {
 public:
  explicit Percentiles(std::vector<double> calls_us) : us_(std::move(calls_us)) {
    BRECCIA_ASSERT(!us_.empty());
    std::sort(us_.begin(), us_.end());
  }
  /// The least that so many of a hundred do not exceed.
  [[nodiscard]] double of_hundred(std::size_t percent) const {
    return us_[(us_.size() * percent + 99) / 100 - 1];
  }

 private:
  std::vector<double> us_;
};

bool has_skew(const Choice& choice) {
  return choice.distribution == "zipf" || choice.distribution == "latest";
}

std::string choice_in_words(const Choice& choice) {
  if (!has_skew(choice)) return choice.distribution;
  return fmt::format("{} {:.2f}", choice.distribution, choice.skew);
}

/// What a benchmark's rows are called: those of slabs by what their paper calls requests.
std::string name_of(const Run& run, const std::string& benchmark) {
  if (run.whose() != Whose::kSlabs) return benchmark;
  static const std::map<std::string, std::string> kNames = {
      {"hash_find", "slab_get"}, {"hash_update", "slab_put"}, {"hash_insert", "slab_put_new"}};
  const auto name = kNames.find(benchmark);
  if (name != kNames.end()) return name->second;
  const std::string of_hash = "hash_";
  return "slab_" + (benchmark.starts_with(of_hash) ? benchmark.substr(of_hash.size()) : benchmark);
}

std::string in_words(const nlohmann::json& more) {
  std::string words;
  for (const auto& [name, value] : more.items()) {
    words +=
        fmt::format(", {} {}", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return words;
}

}  // namespace

void say(const Run& run, const std::string& benchmark, const Choice& choice, std::uint64_t batch,
         const Timing& timing, const nlohmann::json& more) {
  const Shape& shape = run.shape();
  const Target& target = run.target();
  const double rate = static_cast<double>(timing.requests) / timing.seconds;
  const double load = static_cast<double>(run.keys_in) / static_cast<double>(target.slots());
  const Percentiles calls(timing.calls_us);
  const bool has_lanes = run.whose() != Whose::kCpu;
  // Also where it is none, if a table may be as full as that.
  const bool may_refuse =
      run.refused > 0 || benchmark == "hash_fill" || benchmark == "hash_max_load";
  const std::uint64_t of_batch = std::min({batch, timing.requests, run.flags().entries});
  if (!run.flags().json) {
    fmt::print(
        "{:<24} {:>2} + {:>4} B, load {:.3f}, {:<11}, batches of {:>9}{}: {:9.3f} M/s, "
        "p50 {:.1f} us, p99 {:.1f} us, {}, {}{}\n",
        name_of(run, benchmark), shape.key_bytes, shape.value_bytes, load, choice_in_words(choice),
        of_batch, has_lanes ? fmt::format(", {} lanes", shape.lanes) : "", 1e-6 * rate,
        calls.of_hundred(50), calls.of_hundred(99), target.engine(), target.place(),
        may_refuse ? fmt::format(", refused {}", run.refused) + in_words(more) : in_words(more));
  } else {
    nlohmann::json row = {{"benchmark", name_of(run, benchmark)},
                          {"engine", target.engine()},
                          {"backend", target.place()},
                          {"columns_in", run.backend().device().describe()},
                          {"key_size", shape.key_bytes},
                          {"value_size", shape.value_bytes},
                          {"keys_in", target.keys_in()},
                          {"values_in", target.values_in()},
                          {"entries", run.flags().entries},
                          {"load_factor", load},
                          {"distribution", choice.distribution},
                          {"batch_size", of_batch},
                          {"requests", timing.requests},
                          {"seconds", timing.seconds},
                          {"ops_per_sec", rate},
                          {"calls", timing.calls_us.size()},
                          {"p50_us", calls.of_hundred(50)},
                          {"p99_us", calls.of_hundred(99)},
                          {"max_us", calls.of_hundred(100)},
                          {"seed", run.seed()},
                          {"machine", machine_name()}};
    if (has_skew(choice)) row["skew"] = choice.skew;
    if (has_lanes) row["lanes"] = shape.lanes;
    if (may_refuse) row["refused"] = run.refused;
    if (!has_lanes) row["copy_seconds"] = timing.copy_seconds;
    for (const auto& [name, figure] : target.figures()) row[name] = figure;
    row.update(more);
    fmt::print("{}\n", row.dump());
  }
  std::fflush(stdout);
}

void say(const Run& run, const std::string& benchmark, const Choice& choice, std::uint64_t batch,
         const Timing& timing) {
  say(run, benchmark, choice, batch, timing, nlohmann::json::object());
}

}  // namespace breccia::bench::tables
