#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "bench/hash/chooser.h"
#include "bench/hash/report.h"
#include "bench/hash/rmat.h"
#include "bench/hash/workloads.h"

/// PageRank of a graph whose vertices have their ranks in a table, by keys. An iteration looks up
/// the source of every edge, and vertices without an edge out, then updates all vertices. Ranks are
/// computed, out of the clock's sight, from what was found; the last ones are compared with those
/// of a computation that has no table.
/// Source  [gphash] 4.1. Deviation: an R-MAT graph in the place of Twitter's.

namespace breccia::bench::tables {

namespace {

using hash::Code;
using hash::Operation;

class PageRank {
 public:
  PageRank(Run& run, const Graph& graph, std::uint64_t batch)
      : run_(run), graph_(graph), batch_(batch), ranks_(graph.vertices()) {}

  Status measure() {
    BRECCIA_TRY(begin());
    for (std::uint32_t i = 0; i < run_.flags().iterations; ++i) {
      std::vector<double> next(graph_.vertices());
      BRECCIA_TRY(gather(&next));
      BRECCIA_TRY(update(std::move(next)));
    }
    return end();
  }

 private:
  [[nodiscard]] std::uint64_t slab() const { return run_.flags().entries; }

  /// Equal ranks, all in the table.
  Status begin() {
    const std::uint64_t n = graph_.vertices();
    BRECCIA_TRY(run_.make_target(
        {.slots = n * 100 / run_.shape().load_percent, .keys = n, .batch = batch_}));
    BRECCIA_TRY(run_.warm_up(batch_));
    run_.keys_in = n;
    std::fill(ranks_.begin(), ranks_.end(), 1 / static_cast<double>(n));
    std::vector<std::uint64_t> order(n);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    for (std::uint64_t v = 0; v < n; ++v) {
      if (graph_.degrees[v] == 0) loose_.push_back(v);
    }
    Timing aside;
    Answers answers;
    const Trace trace = trace_of(std::move(order), batch_, Operation::kInsert);
    BRECCIA_TRY(send(trace, &aside, &answers));
    return expect(trace, answers, Code::kAbsent);
  }

  /// What each vertex gets along its edges, and its share of what loose vertices keep.
  Status gather(std::vector<double>* next) {
    const std::uint64_t n = graph_.vertices();
    std::uint64_t v = 0;  // whose edges come next
    for (std::uint64_t at = 0; at < graph_.edges(); at += slab()) {
      const std::uint64_t end = std::min(at + slab(), graph_.edges());
      Answers answers;
      BRECCIA_TRY(look_up({graph_.sources.begin() + static_cast<std::ptrdiff_t>(at),
                           graph_.sources.begin() + static_cast<std::ptrdiff_t>(end)},
                          &answers));
      for (std::uint64_t e = at; e < end; ++e) {
        while (e >= graph_.begin[v + 1]) ++v;
        (*next)[v] += rank_of(answers, e - at) / graph_.degrees[graph_.sources[e]];
      }
    }
    double kept = 0;
    for (std::uint64_t at = 0; at < loose_.size(); at += slab()) {
      const std::uint64_t end = std::min<std::uint64_t>(at + slab(), loose_.size());
      Answers answers;
      BRECCIA_TRY(look_up({loose_.begin() + static_cast<std::ptrdiff_t>(at),
                           loose_.begin() + static_cast<std::ptrdiff_t>(end)},
                          &answers));
      for (std::uint64_t i = at; i < end; ++i) kept += rank_of(answers, i - at);
    }
    const auto count = static_cast<double>(n);
    for (double& rank : *next) {
      rank = (1 - kDamping) / count + kDamping * (rank + kept / count);
    }
    return Status::OK();
  }
  Status look_up(std::vector<std::uint64_t> keys, Answers* answers) {
    const Trace trace = trace_of(std::move(keys), batch_, Operation::kFind);
    BRECCIA_TRY(send(trace, &lookups_, answers));
    return expect(trace, *answers, Code::kPresent);
  }
  [[nodiscard]] double rank_of(const Answers& answers, std::uint64_t i) const {
    return std::bit_cast<double>(answers.found[i * run_.keys().words()]);
  }

  Status update(std::vector<double> next) {
    std::vector<std::uint64_t> order(graph_.vertices());
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    const Trace trace = trace_of(std::move(order), batch_, Operation::kUpdate);
    Answers answers;
    ranks_.swap(next);
    BRECCIA_TRY(send(trace, &updates_, &answers));
    ranks_.swap(next);  // what was there before is found
    BRECCIA_TRY(expect(trace, answers, Code::kPresent));
    ranks_.swap(next);
    return Status::OK();
  }

  /// Values are of ranks_.
  Status send(const Trace& trace, Timing* timing, Answers* answers) {
    BRECCIA_TRY(run_.put(trace, [&](std::uint64_t i) {
      return std::bit_cast<std::uint64_t>(ranks_[trace.order[i]]);
    }));
    BRECCIA_TRY(run_.send(trace, timing, nullptr));
    timing->requests += trace.size();
    return run_.take(trace.size(), answers);
  }

  /// All have the code, and if they are present all words of their rank.
  Status expect(const Trace& trace, const Answers& answers, Code code) const {
    const std::uint64_t words = run_.keys().words();
    std::atomic<std::uint64_t> wrong = 0;
    base::parallel_for(std::uint64_t{0}, trace.size(), [&](std::uint64_t i) {
      const auto first = std::bit_cast<std::uint64_t>(ranks_[trace.order[i]]);
      bool fits = answers.codes[i] == code;
      for (std::uint64_t w = 0; w < words; ++w) {
        const std::uint64_t expected = code == Code::kPresent ? Keys::word(first, w) : 0;
        fits = fits && answers.found[i * words + w] == expected;
      }
      if (!fits) ++wrong;
    });
    if (wrong == 0) return Status::OK();
    return Status::Corruption("hash_pagerank",
                              std::to_string(wrong) + " ranks are not what they were");
  }

  /// Compares the ranks, and prints the row.
  Status end() {
    constexpr double kTolerance = 1e-9;
    const std::vector<double> expected = page_rank(graph_, run_.flags().iterations);
    for (std::uint64_t v = 0; v < expected.size(); ++v) {
      if (std::abs(ranks_[v] - expected[v]) <= kTolerance * expected[v]) continue;
      return Status::Corruption("hash_pagerank",
                                "vertex " + std::to_string(v) + " has another rank");
    }
    const double sum = std::accumulate(ranks_.begin(), ranks_.end(), 0.0);
    if (std::abs(sum - 1) > kTolerance) {
      return Status::Corruption("hash_pagerank", "the sum of all ranks is " + std::to_string(sum));
    }
    Timing all = lookups_;
    all.requests += updates_.requests;
    all.seconds += updates_.seconds;
    all.copy_seconds += updates_.copy_seconds;
    all.calls_us.insert(all.calls_us.end(), updates_.calls_us.begin(), updates_.calls_us.end());
    say(run_, "hash_pagerank", {"rmat", 0}, batch_, all,
        {{"vertices", graph_.vertices()},
         {"edges", graph_.edges()},
         {"iterations", run_.flags().iterations},
         {"rank_sum", sum},
         {"lookups", lookups_.requests},
         {"lookup_seconds", lookups_.seconds},
         {"updates", updates_.requests}});
    return Status::OK();
  }

  Run& run_;
  const Graph& graph_;
  const std::uint64_t batch_;
  std::vector<double> ranks_;         // that the table has
  std::vector<std::uint64_t> loose_;  // vertices without an edge out
  Timing lookups_, updates_;
};

}  // namespace

Status run_pagerank(Run& run, std::span<const std::uint32_t> batches) {
  const int scale = std::bit_width(run.flags().entries) - 1;
  const Graph graph = make_rmat(scale, run.flags().edges, run.seed());
  for (const std::uint32_t batch : batches) BRECCIA_TRY(PageRank(run, graph, batch).measure());
  return Status::OK();
}

}  // namespace breccia::bench::tables
