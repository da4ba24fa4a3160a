#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/copy_in.h"
#include "runs/algo/range.cuh"
#include "runs/algo/runs.cuh"
#include "runs/algo/tags.cuh"
#include "runs/algo/update.cuh"
#include "runs/backend.h"

namespace breccia::runs {

/// The calls of Backend for a tenant's type: `tenant.executor()` leases an executor for one call.
template <class Tenant>
class BackendOn : public Backend {
 public:
  explicit BackendOn(const std::shared_ptr<Tenant>& tenant) : Backend(tenant), own_(*tenant) {}

  [[nodiscard]] Result<RunPtr> build_run(const record::EntriesRef& entries,
                                         std::uint32_t* descriptors) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(auto run, algo::build_run(*x, entries, descriptors));
    return wrap(std::move(run));
  }

  [[nodiscard]] Result<RunPtr> merge_runs(std::span<const RunPtr> runs, Keep keep) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(auto run, algo::merge_runs(*x, refs_of(runs), keep));
    return wrap(std::move(run));
  }

  [[nodiscard]] Status search(std::span<const RunPtr> runs, const QueriesRef& queries,
                              const FoundRef& found) override {
    if (queries.keys.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    return algo::search(*x, refs_of(runs), queries, found);
  }

  [[nodiscard]] Result<TagsPtr> copy_tags(const std::uint32_t* tags,
                                          std::uint64_t set_count) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(auto copy, exec::copy_in(*x, tags, set_count * kTagWays));
    return TagsPtr(std::make_shared<algo::PoolTags>(std::move(copy), set_count));
  }

  [[nodiscard]] Status search_with_tags(std::span<const RunPtr> runs, const QueriesRef& queries,
                                        const Tags& tags, std::uint32_t seed, const FoundRef& found,
                                        std::uint32_t* refs) override {
    if (queries.keys.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    return algo::search_with_tags(*x, refs_of(runs), queries,
                                  static_cast<const algo::PoolTags&>(tags).ref(), seed, found,
                                  refs);
  }

  [[nodiscard]] Status ranges(std::span<const RunPtr> runs, const RangesRef& ranges,
                              const WalkedRef& walked) override {
    if (ranges.begin.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    return algo::ranges(*x, refs_of(runs), ranges, walked);
  }

  [[nodiscard]] Result<UpdatePtr> begin_update(const UpdatesRef& updates) override {
    BRECCIA_TAKE(auto x, own_.executor());
    return algo::SortedUpdate<Executor>::make(*x, tenant_ptr(), updates);
  }

  [[nodiscard]] Status finish_update(const Update& update, std::span<const RunPtr> newer,
                                     std::uint64_t* result, bool* fits) override {
    BRECCIA_TAKE(auto x, own_.executor());
    const auto& sorted = static_cast<const algo::SortedUpdate<Executor>&>(update);
    return sorted.finish(*x, refs_of(newer), result, fits);
  }

  [[nodiscard]] Status read_payloads(const Run& run, std::uint64_t* out) override {
    BRECCIA_TAKE(auto x, own_.executor());
    const RunRef& ref = static_cast<const algo::PoolRun&>(run).ref();
    BRECCIA_TRY(x->copy_out(out, ref.payload, ref.keys.count));
    return x->finish();
  }

 protected:
  static std::vector<RunRef> refs_of(std::span<const RunPtr> runs) {
    std::vector<RunRef> refs;
    refs.reserve(runs.size());
    for (const RunPtr& run : runs) refs.push_back(static_cast<const algo::PoolRun&>(*run).ref());
    return refs;
  }

  Tenant& own_;

 private:
  using Executor = std::remove_cvref_t<decltype(*std::declval<Tenant&>().executor().take())>;

  RunPtr wrap(algo::RunArrays arrays) {
    return std::make_shared<algo::PoolRun>(tenant_ptr(), std::move(arrays));
  }
};

}  // namespace breccia::runs
