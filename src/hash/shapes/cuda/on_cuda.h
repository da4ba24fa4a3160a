#pragma once

#include <memory>

#include "hash/shapes/shaped_on.h"

namespace breccia::hash::shapes {

/// Makes tables for a tenant of a GPU. In builds with CUDA only.
std::unique_ptr<ShapedMaker> make_cuda_maker(const exec::TenantPtr& tenant);

}  // namespace breccia::hash::shapes
