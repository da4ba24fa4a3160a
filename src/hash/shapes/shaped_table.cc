#include "hash/shapes/shaped_table.h"

#include "exec/instantiate.h"
#include "hash/shapes/cuda/on_cuda.h"
#include "hash/shapes/shaped_on.h"

namespace breccia::hash::shapes {

namespace {

std::unique_ptr<ShapedMaker> maker_for(const exec::TenantPtr& tenant) {
#if defined(BRECCIA_HAVE_CUDA)
  if (tenant->device().kind() == exec::DeviceKind::kCuda) return make_cuda_maker(tenant);
#endif
  return exec::instantiate_on_cpus<ShapedMakerOn, ShapedMaker>(tenant);
}

}  // namespace

Result<std::unique_ptr<ShapedTable>> make_shaped_table(const exec::TenantPtr& tenant,
                                                       const ShapedOptions& options) {
  if (share_of(options.shape, options.lanes) == 0) {
    return Status::InvalidArgument("a shape whose slots so many lanes cannot look at at once");
  }
  return maker_for(tenant)->make(options);
}

}  // namespace breccia::hash::shapes
