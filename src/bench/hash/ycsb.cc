#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "bench/hash/chooser.h"
#include "bench/hash/report.h"
#include "bench/hash/workloads.h"

/// YCSB's core workloads as requests of a table: A half updates, B one of twenty, C none, F half
/// read-modify-writes, D one insertion of twenty and finds of what was inserted last.
///
/// A batch of F looks up all of its keys, and then updates those of its read-modify-writes: two
/// calls. Finds of D choose among what batches before have inserted, as YCSB's do among what is
/// acknowledged, and D's keys are deleted behind it.

namespace breccia::bench::tables {

namespace {

using hash::Operation;

constexpr std::uint64_t kInsertOneIn = 20;

std::uint64_t count_of(const Trace& trace, Operation operation) {
  std::uint64_t count = 0;
  for (const Step& step : trace.steps) {
    for (std::uint64_t i = step.begin; i < step.end; ++i) {
      if (trace.operation(step, i) == operation) ++count;
    }
  }
  return count;
}

/// One workload with batches of one size.
class Ycsb {
 public:
  Ycsb(Run& run, std::string name, const Choice& choice, std::uint64_t batch)
      : run_(run),
        name_(std::move(name)),
        choice_(choice),
        batch_(batch),
        keys_(run.flags().entries),
        chooser_({"zipf", choice.skew}, keys_, run.seed() + batch) {}

  Status measure() {
    Chooser drawn(choice_, keys_, run_.seed() + batch_);
    Timing timing;
    std::uint64_t updates = 0;
    std::uint64_t inserts = 0;
    while (timing.requests < run_.requests()) {
      const std::uint64_t n = std::min(run_.requests() - timing.requests, slab());
      const Trace next = trace(n, drawn);
      BRECCIA_TRY(run_.run(name_, next, &timing));
      timing.requests += n;
      updates += count_of(next, Operation::kUpdate);
      inserts += count_of(next, Operation::kInsert);
    }
    say(run_, name_, choice_, std::min(batch_, slab()), timing,
        {{"updates", updates}, {"inserts", inserts}});
    return drop_inserted();
  }

 private:
  [[nodiscard]] char letter() const { return name_.back(); }
  /// Requests that the columns have room for.
  [[nodiscard]] std::uint64_t slab() const { return letter() == 'f' ? keys_ / 2 : keys_; }

  Trace trace(std::uint64_t n, Chooser& drawn) {
    switch (letter()) {
      case 'a':
        return reads_and_updates(n, 0.5, drawn);
      case 'b':
        return reads_and_updates(n, 0.05, drawn);
      case 'c':
        return trace_of(drawn.draw(n), batch_, Operation::kFind);
      case 'd':
        return reads_of_latest(n);
      default:
        BRECCIA_ASSERT(letter() == 'f');
        return read_modify_writes(n, drawn);
    }
  }

  Trace reads_and_updates(std::uint64_t n, double updates, Chooser& drawn) {
    Trace trace;
    trace.order = drawn.draw(n);
    trace.operations.resize(n);
    for_random(n, drawn.next_seed(), [&](base::Random& random, std::uint64_t i) {
      trace.operations[i] = random.unit() < updates ? Operation::kUpdate : Operation::kFind;
    });
    trace.cut_mixed(batch_);
    return trace;
  }

  Trace read_modify_writes(std::uint64_t n, Chooser& drawn) {
    const std::vector<std::uint64_t> keys = drawn.draw(n);
    std::vector<char> writes(n);
    for_random(n, drawn.next_seed(), [&](base::Random& random, std::uint64_t i) {
      writes[i] = random.one_in(2) ? 1 : 0;
    });
    Trace trace;
    for (std::uint64_t at = 0; at < n; at += batch_) {
      const std::uint64_t end = std::min(at + batch_, n);
      const std::uint64_t finds = trace.size();
      const auto begin = static_cast<std::ptrdiff_t>(at);
      trace.order.insert(trace.order.end(), keys.begin() + begin,
                         keys.begin() + static_cast<std::ptrdiff_t>(end));
      const std::uint64_t updates = trace.size();
      for (std::uint64_t i = at; i < end; ++i) {
        if (writes[i] != 0) trace.order.push_back(keys[i]);
      }
      trace.cut(finds, updates, batch_, Operation::kFind);
      trace.cut(updates, trace.size(), batch_, Operation::kUpdate);
      if (trace.size() > updates) trace.steps.back().is_behind = true;
    }
    return trace;
  }

  Trace reads_of_latest(std::uint64_t n) {
    Trace trace;
    trace.order.resize(n);
    trace.operations.assign(n, Operation::kFind);
    base::Random places(chooser_.next_seed());
    for (std::uint64_t at = 0; at < n; at += kInsertOneIn) {
      const std::uint64_t place = at + places.below(kInsertOneIn);
      if (place < n) trace.operations[place] = Operation::kInsert;
    }
    // How many keys there are when the batch of a request begins.
    std::vector<std::uint64_t> keys_before(blocks_of(n, batch_));
    for (std::uint64_t i = 0; i < n; ++i) {
      if (i % batch_ == 0) keys_before[i / batch_] = run_.keys_in;
      if (trace.operations[i] != Operation::kInsert) continue;
      BRECCIA_ASSERT(!run_.ledger().has(run_.keys_in));
      trace.order[i] = run_.keys_in++;
    }
    for_random(n, chooser_.next_seed(), [&](base::Random& random, std::uint64_t i) {
      if (trace.operations[i] == Operation::kInsert) return;
      trace.order[i] = keys_before[i / batch_] - 1 - chooser_.rank(&random);
      BRECCIA_ASSERT(trace.order[i] < keys_before[i / batch_]);
    });
    trace.cut_mixed(batch_);
    return trace;
  }

  Status drop_inserted() {
    while (run_.keys_in > keys_) {
      const std::uint64_t n = std::min(run_.keys_in - keys_, keys_);
      std::vector<std::uint64_t> order(n);
      std::iota(order.begin(), order.end(), run_.keys_in - n);
      Timing aside;
      BRECCIA_TRY(run_.run("deletion of what was inserted",
                           trace_of(std::move(order), batch_, Operation::kDelete), &aside));
      run_.keys_in -= n;
    }
    return Status::OK();
  }

  Run& run_;
  const std::string name_;
  const Choice choice_;
  const std::uint64_t batch_;
  const std::uint64_t keys_;
  Chooser chooser_;  // of ranks
};

/// All but load, in an order in which none changes what the next one finds.
Status run_letters(Run& run, const std::set<std::string>& letters, const Choice& choice,
                   std::uint64_t batch) {
  for (const char* const letter : {"a", "b", "c", "f", "d"}) {
    if (!letters.contains(letter)) continue;
    Choice own = choice;
    if (own.distribution != "zipf") own.skew = kYcsbTheta;
    if (*letter == 'd') own.distribution = "latest";
    BRECCIA_TRY(Ycsb(run, std::string("hash_ycsb_") + letter, own, batch).measure());
  }
  return Status::OK();
}

}  // namespace

Status run_ycsb(Run& run, const std::set<std::string>& letters,
                std::span<const std::uint32_t> batches, std::span<const Choice> choices) {
  // Each slab's last twenty may be cut short, and have an insertion all the same.
  const std::uint64_t insertions =
      run.requests() / kInsertOneIn + run.requests() / run.flags().entries + 2;
  for (const std::uint32_t batch : batches) {
    BRECCIA_TAKE(const Filling filling, fill(run, letters.contains("d") ? insertions : 0, batch));
    if (letters.contains("load")) {
      say(run, "hash_ycsb_load", {"uniform", 0}, batch, filling.all);
    }
    for (const Choice& choice : choices) BRECCIA_TRY(run_letters(run, letters, choice, batch));
  }
  return Status::OK();
}

}  // namespace breccia::bench::tables
