#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "base/result.h"
#include "bench/hash/run.h"

/// What a table is measured with. Each makes the table that it needs, fills it, and prints its
/// rows.
/// Shape   batches[0] is that of the filling; at least one batch and one choice.
namespace breccia::bench::tables {

/// Insertions, lookups, misses, updates, both by turns, deletions; of those what a table has.
Status run_micro(Run& run, std::span<const std::uint32_t> batches, std::span<const Choice> choices);

/// YCSB's core workloads among load, a, b, c, d, f.
Status run_ycsb(Run& run, const std::set<std::string>& letters,
                std::span<const std::uint32_t> batches, std::span<const Choice> choices);

/// Fills tables to the brim, of any load, a row for each twentieth of the slots.
Status run_fill(Run& run, std::span<const std::uint32_t> batches);
/// Fills tables until a key finds no room: how full they are then.
Status run_max_load(Run& run, std::span<const std::uint32_t> batches);
/// Fills tables that grow once meanwhile, at two thirds of the keys: what the calls take in which
/// they do.
Status run_grow(Run& run, std::span<const std::uint32_t> batches);

/// Lookups and updates of embeddings, as a model of recommendations is trained.
Status run_dlrm(Run& run, std::span<const std::uint32_t> batches, std::span<const Choice> choices);
/// PageRank of a random graph whose ranks lie in the table.
Status run_pagerank(Run& run, std::span<const std::uint32_t> batches);

/// What the filling of a table took: of all keys, and of the last eighth.
struct Filling {
  Timing all;
  Timing last_eighth;
};
/// Fills a new table of the run's load with keys [0, entries), and room for `more` others.
Result<Filling> fill(Run& run, std::uint64_t more, std::uint64_t batch);

}  // namespace breccia::bench::tables
