#pragma once

#include <memory>

#include "residency/backend.h"

namespace breccia::residency {

/// The verbs for a tenant of a GPU. In builds with CUDA only.
std::unique_ptr<Backend> make_cuda_backend(const exec::TenantPtr& tenant);

}  // namespace breccia::residency
