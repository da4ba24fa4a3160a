#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "bench/hash/chooser.h"
#include "bench/hash/report.h"
#include "bench/hash/workloads.h"

/// The table's part in training a model of recommendations: rows of 26 embedding tables, which are
/// one table here, with ids one behind the other. A sample asks each for a bag of ids, which the
/// model pools. A batch of samples is a call that looks all of its ids up and one that updates each
/// of them once, as a step of training sums what an id gets.
///
/// The tables have the sizes of Criteo's data set of click logs (Kaggle, 2014), as [dlrm] counts
/// its ids, scaled to --entries; ids are drawn by Zipf's law in each, as popular as --skew says.
/// Source  [gphash] 4.1, [dlrm]. Deviation: drawn ids in the place of the data set's.

namespace breccia::bench::tables {

namespace {

using hash::Operation;

constexpr std::array<std::uint64_t, 26> kCriteoIds = {
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};

/// A table among the keys.
struct Embedding {
  std::uint64_t first;
  Chooser ids;
};

class Dlrm {
 public:
  Dlrm(Run& run, const Choice& choice, std::uint64_t batch)
      : run_(run), choice_(choice), chooser_(choice, 1, run.seed() + batch) {
    const std::uint64_t entries = run.flags().entries;
    const double all = std::accumulate(kCriteoIds.begin(), kCriteoIds.end(), 0.0);
    std::uint64_t first = 0;
    double ids = 0;
    for (const std::uint64_t count : kCriteoIds) {
      ids += static_cast<double>(count);
      // At least one each, and all of them together.
      const std::uint64_t tables_left = kCriteoIds.size() - embeddings_.size() - 1;
      const auto until =
          static_cast<std::uint64_t>(std::llround(ids / all * static_cast<double>(entries)));
      const std::uint64_t end = std::clamp(until, first + 1, entries - tables_left);
      embeddings_.push_back({first, Chooser(choice, end - first, chooser_.next_seed())});
      first = end;
    }
    // Whole samples, of which lookups and updates have room in the columns.
    const std::uint64_t most = std::min(batch, entries / 2);
    samples_ = std::max<std::uint64_t>(1, most / ids_a_sample());
  }

  Status measure() {
    Timing timing;
    double lookup_seconds = 0;
    std::uint64_t lookups = 0;
    const Watch watch{.behind_call = [&](const Step& step, double us) {
      if (step.all == Operation::kFind) lookup_seconds += 1e-6 * us;
    }};
    while (lookups < run_.requests()) {
      const Trace trace = make_trace(run_.requests() - lookups);
      BRECCIA_TRY(run_.run("hash_dlrm", trace, &timing, watch));
      for (const Step& step : trace.steps) {
        if (step.all == Operation::kFind) lookups += step.end - step.begin;
      }
      timing.requests += trace.size();
    }
    say(run_, "hash_dlrm", choice_, samples_ * ids_a_sample(), timing,
        {{"bag_ids", run_.flags().bag_ids},
         {"samples", lookups / ids_a_sample()},
         {"lookups", lookups},
         {"lookup_seconds", lookup_seconds},
         {"updates", timing.requests - lookups}});
    return Status::OK();
  }

 private:
  [[nodiscard]] std::uint64_t ids_a_sample() const {
    return kCriteoIds.size() * run_.flags().bag_ids;
  }

  /// As many batches as the columns have room for, of so many lookups in whole batches.
  Trace make_trace(std::uint64_t lookups) {
    const std::uint64_t of_batch = samples_ * ids_a_sample();
    const std::uint64_t room = std::max<std::uint64_t>(1, run_.flags().entries / (2 * of_batch));
    const std::uint64_t batches = std::min(blocks_of(lookups, of_batch), room);
    std::vector<std::vector<std::uint64_t>> ids(batches), distinct(batches);
    const std::uint64_t seed = chooser_.next_seed();
    base::parallel_for(std::uint64_t{0}, batches, [&](std::uint64_t b) {
      base::Random random(base::mix64(seed) + b);
      ids[b] = draw(&random);
      distinct[b] = ids[b];
      std::sort(distinct[b].begin(), distinct[b].end());
      distinct[b].erase(std::unique(distinct[b].begin(), distinct[b].end()), distinct[b].end());
    });
    Trace trace;
    for (std::uint64_t b = 0; b < batches; ++b) {
      append(ids[b], Operation::kFind, &trace);
      append(distinct[b], Operation::kUpdate, &trace);
      trace.steps.back().is_behind = true;
    }
    return trace;
  }
  static void append(const std::vector<std::uint64_t>& keys, Operation all, Trace* trace) {
    const std::uint64_t begin = trace->size();
    trace->order.insert(trace->order.end(), keys.begin(), keys.end());
    trace->cut(begin, trace->size(), keys.size(), all);
  }

  std::vector<std::uint64_t> draw(base::Random* random) const {
    std::vector<std::uint64_t> ids;
    ids.reserve(samples_ * ids_a_sample());
    for (std::uint64_t sample = 0; sample < samples_; ++sample) {
      for (const Embedding& embedding : embeddings_) {
        for (std::uint32_t i = 0; i < run_.flags().bag_ids; ++i) {
          ids.push_back(embedding.first + embedding.ids.one(random));
        }
      }
    }
    return ids;
  }

  Run& run_;
  const Choice choice_;
  Chooser chooser_;  // of seeds
  std::vector<Embedding> embeddings_;
  std::uint64_t samples_ = 0;  // of a batch
};

}  // namespace

Status run_dlrm(Run& run, std::span<const std::uint32_t> batches, std::span<const Choice> choices) {
  constexpr std::uint64_t kColumnsOfSample = 2;  // its lookups, and its updates
  if (run.flags().entries < kColumnsOfSample * kCriteoIds.size() * run.flags().bag_ids) {
    return Status::InvalidArgument("a sample of dlrm has more ids than the table",
                                   "more --entries, or fewer --bag_ids");
  }
  const std::uint64_t most = *std::max_element(batches.begin(), batches.end());
  BRECCIA_TRY(fill(run, 0, most).status());
  for (const Choice& choice : choices) {
    for (const std::uint32_t batch : batches) BRECCIA_TRY(Dlrm(run, choice, batch).measure());
  }
  return Status::OK();
}

}  // namespace breccia::bench::tables
