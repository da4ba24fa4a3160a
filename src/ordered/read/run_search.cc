#include "ordered/read/run_search.h"

#include <algorithm>

#include "base/limits.h"
#include "runs/algo/search.cuh"

namespace breccia::ordered {

namespace {

/// What a search says where there are no runs.
bool find_nothing(const runs::QueriesRef& queries, const runs::FoundRef& found) {
  for (std::uint64_t i = 0; i < queries.keys.count; ++i) {
    runs::algo::store_found(found, i, runs::kNotFound, /*value=*/0);
  }
  return true;
}

}  // namespace

bool RunSearch::are_in_one_place(const FamilyView& family) {
  const auto& runs = family.backend_runs;
  return std::all_of(runs.begin(), runs.end(), [&](const runs::RunPtr& run) {
    return (run->host_view() == nullptr) == (runs.front()->host_view() == nullptr);
  });
}

bool RunSearch::takes_rows(const FamilyView& family, const std::uint64_t* rows, std::uint64_t count,
                           std::uint32_t key_bytes) const {
  BRECCIA_ASSERT(rows != nullptr && count > 0);
  const auto backend = backends_->current();
  const auto& runs = family.backend_runs;
  const bool are_here = std::all_of(runs.begin(), runs.end(),
                                    [&](const runs::RunPtr& run) { return backend->holds(*run); });
  return are_here && backend->device().reaches(rows, count * key_bytes);
}

// A device that fails is retired; a view older than that may hold its runs a while longer, and gets
// here too.
bool RunSearch::search(const FamilyView& family, std::span<const runs::RunPtr> runs,
                       const runs::QueriesRef& queries, const runs::FoundRef& found,
                       CacheRefs* cached) const {
  BRECCIA_ASSERT(found.value == nullptr || family.has_values);
  BRECCIA_ASSERT(found.op == nullptr || cached == nullptr);
  // A group commit may publish more runs at once than a search takes.
  if (runs.size() > limits::kRunsPerSearchMax) {
    statistics_->add(Ticker::kTooManyRuns, 1);
    return false;
  }
  const auto backend = backends_->current();
  std::vector<runs::RunPtr> here;
  std::vector<runs::RunPtr> on_host;
  for (const runs::RunPtr& run : runs) {
    if (!backend->holds(*run) && run->host_view() == nullptr) return false;
    (backend->holds(*run) ? here : on_host).push_back(run);
  }
  const runs::TagsPtr tags =
      cached != nullptr && tags_ != nullptr ? tags_->on(backend->tenant().device_ptr()) : nullptr;
  if (runs.empty() && tags == nullptr) return find_nothing(queries, found);
  // A device has nothing to do where the host built all runs, as they are small.
  if (here.empty() && !on_host.empty() && tags == nullptr) {
    return backends_->host().search(on_host, queries, found).ok();
  }
  const Status searched = backends_->attempt(*backend, [&](runs::Backend& on) {
    return tags == nullptr
               ? on.search(here, queries, found)
               : on.search_with_tags(here, queries, *tags, family.id, found, cached->refs);
  });
  if (!searched.ok()) return false;
  if (tags != nullptr) cached->is_filled = true;
  if (on_host.empty()) return true;
  BRECCIA_ASSERT(found.op == nullptr);  // without payloads nobody can tell which version is newer
  const std::uint64_t n = queries.keys.count;
  exec::HostVector<std::uint64_t> payloads(exec::plain_host_memory());
  exec::HostVector<std::uint64_t> values(exec::plain_host_memory());
  if (!payloads.reserve(n) || !values.reserve(n)) return false;
  const runs::FoundRef others{payloads.extend(n),
                              found.value == nullptr ? nullptr : values.extend(n)};
  if (!backends_->host().search(on_host, queries, others).ok()) return false;
  // Each run has positions of its own, so the newer version is the larger payload; none is 0.
  for (std::uint64_t i = 0; i < n; ++i) {
    if (others.payload[i] <= found.payload[i]) continue;
    found.payload[i] = others.payload[i];
    if (found.value != nullptr) found.value[i] = others.value[i];
  }
  return true;
}

}  // namespace breccia::ordered
