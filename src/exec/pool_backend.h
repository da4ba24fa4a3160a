#pragma once

#include <span>
#include <vector>

#include "exec/algo/runs.cuh"
#include "exec/backend.h"

namespace breccia::exec {

/// The calls of Backend over an executor type: what host, simulator and CUDA backends share.
/// `Derived` offers `Result<Lease> executor()`, where *lease is an executor for one call.
template <class Derived>
class PoolBackend : public Backend {
 public:
  [[nodiscard]] Result<RunPtr> build_run(const KeyColumnsRef& keys, const std::uint64_t* relative,
                                         std::uint64_t base, bool sorted,
                                         std::uint32_t* descriptors) override {
    BRECCIA_TAKE(auto x, self().executor());
    BRECCIA_TAKE(auto run, algo::build_run(*x, keys, relative, base, sorted, descriptors));
    return wrap(std::move(run));
  }

  [[nodiscard]] Result<RunPtr> merge_runs(std::span<const RunPtr> runs, bool newest_only) override {
    BRECCIA_TAKE(auto x, self().executor());
    BRECCIA_TAKE(auto run, algo::merge_runs(*x, refs_of(runs), newest_only));
    return wrap(std::move(run));
  }

  [[nodiscard]] Status search(std::span<const RunPtr> runs, const QueriesRef& queries,
                              std::uint64_t* found) override {
    if (queries.keys.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, self().executor());
    return algo::search(*x, refs_of(runs), queries, found);
  }

  [[nodiscard]] Status read_payloads(const Run& run, std::uint64_t* out) override {
    BRECCIA_TAKE(auto x, self().executor());
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

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  RunPtr wrap(algo::RunArrays arrays) {
    return std::make_shared<algo::PoolRun>(std::move(arrays), kind() != BackendKind::kCuda);
  }
};

}  // namespace breccia::exec
