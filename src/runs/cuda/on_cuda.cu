#include "runs/cuda/on_cuda.h"

#include "exec/cuda/instantiate.cuh"
#include "runs/backend_on.h"
#include "runs/cuda/small_search.cuh"

namespace breccia::runs {

namespace {

/// With a search of its own for few queries.
template <class Tenant>
class CudaBackend final : public BackendOn<Tenant> {
 public:
  using BackendOn<Tenant>::BackendOn;

  [[nodiscard]] Status search(std::span<const RunPtr> runs, const QueriesRef& queries,
                              const FoundRef& found) override {
    const bool is_small = found.payload != nullptr && cuda::is_small_search(queries);
    if (queries.keys.count == 0 || !is_small) {
      return BackendOn<Tenant>::search(runs, queries, found);
    }
    BRECCIA_TAKE(auto x, this->own_.executor());
    return cuda::small_search(*x, this->refs_of(runs), queries, found);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const exec::TenantPtr& tenant) {
  return exec::cuda::instantiate_on_cuda<CudaBackend, Backend>(tenant);
}

}  // namespace breccia::runs
