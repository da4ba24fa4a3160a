#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "record/key_hash.h"
#include "runs/algo/range.cuh"
#include "runs/algo/runs.cuh"
#include "runs/algo/search.cuh"
#include "runs/tags.h"

/// Lookups in a table of tags, for what a search of runs did not find.

namespace breccia::runs::algo {

/// Lanes that share a lookup: a set's tags are 128 bytes, four tags a lane.
inline constexpr int kTagWidth = 8;

/// Looks for a tag of each query's key among those of its set. Group g looks up query g; launch
/// over count * W items.
/// Shape   refs[queries.count]: where the first way with the key's tag is, plus 1; 0: nowhere, or
///         `found` has the key.
/// Bound   kTagWays / W reads per lane.
/// Threads any number of groups; each writes only its own query's result.
/// Source  [hrocks] section 6.2. Deviation: what is found is a place, which the CPU looks at.
struct SearchTags {
  TagsRef table;
  record::KeyColumnsRef keys;
  std::uint32_t seed;
  const std::uint64_t* found;
  std::uint32_t* refs;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t query = first / Group::kWidth;
    std::uint64_t ref = 0;
    if (found[query] == kNotFound) ref = look_up(group, record::hash_key(keys, query, seed));
    group.each_lane([&](int lane) {
      if (lane == 0) refs[query] = static_cast<std::uint32_t>(ref);
    });
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD std::uint64_t look_up(const Group& group, std::uint64_t hash) const {
    const std::uint32_t tag = tag_of(hash);
    const std::uint64_t begin = set_of(hash, table.set_count) * kTagWays;
    for (int way = 0; way < kTagWays; way += Group::kWidth) {
      const std::uint32_t* const tags = table.tags + begin + way;
      const exec::LaneMask same = group.ballot([&](int lane) { return tags[lane] == tag; });
      if (same != 0) return begin + static_cast<std::uint64_t>(way + exec::first_set(same)) + 1;
    }
    return 0;
  }
};

/// A table of tags in a pool.
class PoolTags : public Tags {
 public:
  PoolTags(exec::Array<std::uint32_t> tags, std::uint64_t set_count)
      : tags_(std::move(tags)), set_count_(set_count) {}
  [[nodiscard]] std::uint64_t set_count() const override { return set_count_; }
  [[nodiscard]] TagsRef ref() const { return {tags_.data(), set_count_}; }

 private:
  exec::Array<std::uint32_t> tags_;
  std::uint64_t set_count_;
};

/// The executor's side of Backend::search_with_tags.
/// Cost    that of a search, and a read of 128 bytes for each query that it does not answer.
template <class X>
Status search_with_tags(X& x, std::span<const RunRef> runs, const QueriesRef& host,
                        const TagsRef& table, std::uint32_t seed, const FoundRef& found,
                        std::uint32_t* refs) {
  const std::uint64_t n = host.keys.count;
  BRECCIA_ASSERT(runs.size() <= limits::kRunsPerSearchMax);
  BRECCIA_ASSERT(found.payload != nullptr && found.op == nullptr);
  BRECCIA_TAKE(const auto keys, ImportedKeys<X>::make(x, host.keys));
  BRECCIA_TAKE(const auto bound, x.import(host.bound, host.bound == nullptr ? 0 : n));
  BRECCIA_TAKE(const auto run_refs, x.import(runs.data(), runs.size()));
  QueriesRef queries = host;
  queries.keys = keys.ref();
  queries.bound = host.bound == nullptr ? nullptr : bound.data();
  BRECCIA_TAKE(const exec::Array<std::uint64_t> own_found, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(const auto value, Outlet<X>::make(x, found.value, n));
  BRECCIA_TAKE(const exec::Array<std::uint32_t> own_refs, make_array<std::uint32_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(n, Search{run_refs.data(),
                                                  static_cast<int>(runs.size()),
                                                  queries,
                                                  {own_found.data(), value.data()}}));
  BRECCIA_TRY(x.template launch<kTagWidth>(
      n * kTagWidth, SearchTags{table, queries.keys, seed, own_found.data(), own_refs.data()}));
  BRECCIA_TRY(x.copy_out(found.payload, own_found.data(), n));
  BRECCIA_TRY(value.send(x));
  BRECCIA_TRY(x.copy_out(refs, own_refs.data(), n));
  return x.finish();
}

}  // namespace breccia::runs::algo
