#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "bench/hash/chooser.h"
#include "bench/hash/report.h"
#include "bench/hash/workloads.h"

namespace breccia::bench::tables {

namespace {

using hash::Operation;

const Choice kUniform{"uniform", 0};

/// Finds all keys of a run, those that found no room among them.
Status look_at_all(Run& run, std::uint64_t batch) {
  std::vector<std::uint64_t> order(run.flags().entries);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  Timing aside;
  return run.run("find of all keys", trace_of(std::move(order), batch, Operation::kFind), &aside);
}

/// Tells calls in which a table grows from others.
class GrowthWatch {
 public:
  explicit GrowthWatch(const Target& target) : target_(target), slots_before_(target.slots()) {}

  void note(const Step& step, double us) {
    const bool has_begun = target_.growths() > growths_;
    if (has_begun && growths_ == 0) keys_before_ = requests_;
    growths_ = target_.growths();
    add(step, us, has_begun || is_growing_ ? &growing_ : &others_);
    is_growing_ = target_.is_growing();
    requests_ += step.end - step.begin;
  }

  [[nodiscard]] const Timing& growing() const { return growing_; }
  [[nodiscard]] nlohmann::json in_words() const {
    const auto calls = static_cast<double>(growing_.calls_us.size());
    nlohmann::json more = {{"growths", growths_},
                           {"has_ended", !is_growing_},
                           {"slots_before", slots_before_},
                           {"slots_after", target_.slots()},
                           {"keys_before", keys_before_},
                           {"mean_us", 1e6 * growing_.seconds / calls},
                           {"other_calls", others_.calls_us.size()}};
    if (others_.calls_us.empty()) return more;
    more["other_ops_per_sec"] = static_cast<double>(others_.requests) / others_.seconds;
    more["other_max_us"] = *std::max_element(others_.calls_us.begin(), others_.calls_us.end());
    return more;
  }

 private:
  static void add(const Step& step, double us, Timing* to) {
    to->requests += step.end - step.begin;
    to->seconds += 1e-6 * us;
    to->calls_us.push_back(us);
  }

  const Target& target_;
  const std::uint64_t slots_before_;
  std::uint64_t growths_ = 0;
  bool is_growing_ = false;
  std::uint64_t requests_ = 0;
  std::uint64_t keys_before_ = 0;  // when it began to grow
  Timing growing_, others_;
};

Status fill_to_the_brim(Run& run, std::uint64_t batch) {
  constexpr std::uint64_t kParts = 20;
  const std::uint64_t n = run.flags().entries;
  BRECCIA_TRY(run.make_target({.slots = n, .keys = n, .batch = batch}));
  BRECCIA_TRY(run.warm_up(batch));
  const std::vector<std::uint64_t> order = Chooser(kUniform, n, run.seed()).once(n);
  for (std::uint64_t part = 0; part < kParts; ++part) {
    const auto begin = static_cast<std::ptrdiff_t>(n * part / kParts);
    const auto end = static_cast<std::ptrdiff_t>(n * (part + 1) / kParts);
    const Trace trace =
        trace_of({order.begin() + begin, order.begin() + end}, batch, Operation::kInsert);
    run.refused = 0;  // of this part
    Timing timing{.requests = trace.size()};
    BRECCIA_TRY(run.run("hash_fill", trace, &timing, {.refused = &run.refused}));
    run.keys_in += trace.size() - run.refused;
    say(run, "hash_fill", kUniform, batch, timing);
  }
  return look_at_all(run, batch);
}

Status fill_until_refused(Run& run, std::uint64_t batch) {
  const std::uint64_t n = run.flags().entries;
  const std::uint64_t parts = std::min<std::uint64_t>(n, 256);
  BRECCIA_TRY(run.make_target({.slots = n, .keys = n, .batch = batch}));
  BRECCIA_TRY(run.warm_up(batch));
  const std::vector<std::uint64_t> order = Chooser(kUniform, n, run.seed()).once(n);
  Timing timing;
  for (std::uint64_t part = 0; part < parts && run.refused == 0; ++part) {
    const auto begin = static_cast<std::ptrdiff_t>(n * part / parts);
    const auto end = static_cast<std::ptrdiff_t>(n * (part + 1) / parts);
    const Trace trace =
        trace_of({order.begin() + begin, order.begin() + end}, batch, Operation::kInsert);
    BRECCIA_TRY(run.run("hash_max_load", trace, &timing, {.refused = &run.refused}));
    timing.requests += trace.size();
    run.keys_in += trace.size() - run.refused;
  }
  say(run, "hash_max_load", kUniform, std::min(batch, n / parts), timing);
  return look_at_all(run, batch);
}

Status fill_and_grow(Run& run, std::uint64_t batch_asked) {
  const std::uint64_t n = run.flags().entries;
  // A call that brought most of the keys would want more than twice the size.
  constexpr std::uint64_t kCalls = 16;
  const std::uint64_t batch = std::min(batch_asked, n / kCalls);
  BRECCIA_TRY(run.make_target({.slots = n * 2 / 3, .slots_max = 4 * n, .keys = n, .batch = batch}));
  BRECCIA_TRY(run.warm_up(batch));
  const Trace trace = trace_of(Chooser(kUniform, n, run.seed()).once(n), batch, Operation::kInsert);
  GrowthWatch growth(run.target());
  Timing all;
  BRECCIA_TRY(run.run("hash_grow", trace, &all, {.behind_call = [&](const Step& step, double us) {
                        growth.note(step, us);
                      }}));
  if (growth.growing().calls_us.empty()) {
    return Status::Corruption("hash_grow", "more keys than slots, and the table did not grow");
  }
  run.keys_in = n;
  say(run, "hash_grow", kUniform, batch, growth.growing(), growth.in_words());
  return look_at_all(run, batch);
}

}  // namespace

Status run_fill(Run& run, std::span<const std::uint32_t> batches) {
  for (const std::uint32_t batch : batches) BRECCIA_TRY(fill_to_the_brim(run, batch));
  return Status::OK();
}

Status run_max_load(Run& run, std::span<const std::uint32_t> batches) {
  return fill_until_refused(run, batches.front());
}

Status run_grow(Run& run, std::span<const std::uint32_t> batches) {
  for (const std::uint32_t batch : batches) BRECCIA_TRY(fill_and_grow(run, batch));
  return Status::OK();
}

}  // namespace breccia::bench::tables
