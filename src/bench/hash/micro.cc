#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "bench/hash/chooser.h"
#include "bench/hash/report.h"
#include "bench/hash/workloads.h"

namespace breccia::bench::tables {

namespace {

using hash::Operation;

const Choice kUniform{"uniform", 0};

void add(const Timing& part, Timing* all) {
  all->requests += part.requests;
  all->seconds += part.seconds;
  all->copy_seconds += part.copy_seconds;
  all->calls_us.insert(all->calls_us.end(), part.calls_us.begin(), part.calls_us.end());
}

/// The operations on a table that is full, with batches of one size.
class Micro {
 public:
  Micro(Run& run, const Choice& choice, std::uint64_t batch)
      : run_(run),
        choice_(choice),
        batch_(batch),
        chooser_(choice, run.flags().entries, run.seed() + batch) {}

  Status ask() {
    BRECCIA_TRY(run_.run_idly(trace_of(keys(slab(0)), batch_, Operation::kFind)));
    BRECCIA_TRY(measure("hash_find", Operation::kFind));
    if (run_.whose() == Whose::kShaped) return miss();
    BRECCIA_TRY(measure("hash_update", Operation::kUpdate));
    BRECCIA_TRY(mix());
    BRECCIA_TRY(miss());
    return take_away();
  }

 private:
  /// Requests that the columns have room for, behind those that were done.
  [[nodiscard]] std::uint64_t slab(std::uint64_t done) const {
    return std::min(run_.requests() - done, run_.flags().entries);
  }
  /// Keys of the table. Uniform ones come once each, so that all of them are looked at.
  std::vector<std::uint64_t> keys(std::uint64_t count) {
    return choice_.distribution == "zipf" ? chooser_.draw(count) : chooser_.once(count);
  }

  template <class MakeTrace>
  Status measure(const char* name, const MakeTrace& make_trace) {
    Timing timing;
    while (timing.requests < run_.requests()) {
      const Trace trace = make_trace(slab(timing.requests));
      BRECCIA_TRY(run_.run(name, trace, &timing));
      timing.requests += trace.size();
    }
    say(run_, name, choice_, batch_, timing);
    return Status::OK();
  }
  Status measure(const char* name, Operation all) {
    return measure(name, [&](std::uint64_t n) { return trace_of(keys(n), batch_, all); });
  }

  /// Every second request an update.
  Status mix() {
    return measure("hash_mixed", [&](std::uint64_t n) {
      Trace trace;
      trace.order = keys(n);
      trace.operations.resize(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        trace.operations[i] = i % 2 == 0 ? Operation::kFind : Operation::kUpdate;
      }
      trace.cut_mixed(batch_);
      return trace;
    });
  }

  Status miss() {
    return measure("hash_miss", [&](std::uint64_t n) {
      std::vector<std::uint64_t> order = keys(n);
      for (std::uint64_t& key : order) {
        key += run_.flags().entries;
        BRECCIA_ASSERT(!run_.ledger().has(key));
      }
      return trace_of(std::move(order), batch_, Operation::kFind);
    });
  }

  /// Deletes an eighth of the keys, looks at all, and puts the eighth back.
  Status take_away() {
    const std::uint64_t n = run_.flags().entries / 8;
    const std::vector<std::uint64_t> order = chooser_.once(n);
    Timing timing{.requests = n};
    BRECCIA_TRY(run_.run("hash_delete", trace_of(order, batch_, Operation::kDelete), &timing));
    say(run_, "hash_delete", kUniform, batch_, timing);
    Timing aside;
    std::vector<std::uint64_t> all(run_.flags().entries);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    BRECCIA_TRY(run_.run("find behind deletions", trace_of(all, batch_, Operation::kFind), &aside));
    return run_.run("insert behind deletions", trace_of(all, batch_, Operation::kInsert), &aside);
  }

  Run& run_;
  const Choice choice_;
  const std::uint64_t batch_;
  Chooser chooser_;
};

}  // namespace

Result<Filling> fill(Run& run, std::uint64_t more, std::uint64_t batch) {
  const std::uint64_t n = run.flags().entries;
  BRECCIA_TRY(run.make_target(
      {.slots = (n + more) * 100 / run.shape().load_percent, .keys = n + more, .batch = batch}));
  BRECCIA_TRY(run.warm_up(batch));
  Filling filling;
  const Watch watch{.refused = run.whose() == Whose::kShaped ? &run.refused : nullptr};
  std::vector<std::uint64_t> order = Chooser(kUniform, n, run.seed()).once(n);
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(n - n / 8);
  std::vector<std::uint64_t> end(last, order.end());
  order.erase(last, order.end());
  filling.all.requests = order.size();
  filling.last_eighth.requests = end.size();
  BRECCIA_TRY(run.run("hash_insert", trace_of(std::move(order), batch, Operation::kInsert),
                      &filling.all, watch));
  BRECCIA_TRY(run.run("hash_insert", trace_of(std::move(end), batch, Operation::kInsert),
                      &filling.last_eighth, watch));
  add(filling.last_eighth, &filling.all);
  run.keys_in = n - run.refused;
  return filling;
}

Status run_micro(Run& run, std::span<const std::uint32_t> batches,
                 std::span<const Choice> choices) {
  for (const std::uint32_t batch : batches) {
    BRECCIA_TAKE(const Filling filling, fill(run, 0, batch));
    say(run, "hash_insert", kUniform, batch, filling.all);
    say(run, "hash_insert_last_eighth", kUniform, batch, filling.last_eighth);
    for (const Choice& choice : choices) BRECCIA_TRY(Micro(run, choice, batch).ask());
  }
  return Status::OK();
}

}  // namespace breccia::bench::tables
