#include "hash/shapes/cuda/on_cuda.h"

#include "exec/cuda/instantiate.cuh"

namespace breccia::hash::shapes {

std::unique_ptr<ShapedMaker> make_cuda_maker(const exec::TenantPtr& tenant) {
  return exec::cuda::instantiate_on_cuda<ShapedMakerOn, ShapedMaker>(tenant);
}

}  // namespace breccia::hash::shapes
