#pragma once

#include <memory>

#include "compaction/backend.h"

namespace breccia::compaction {

/// The verbs for a tenant of a GPU. In builds with CUDA only.
std::unique_ptr<Backend> make_cuda_backend(const exec::TenantPtr& tenant);

}  // namespace breccia::compaction
