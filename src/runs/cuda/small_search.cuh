#pragma once

#include <cstdint>
#include <span>

#include "exec/cuda/cuda_executor.cuh"
#include "runs/refs.h"

namespace breccia::runs::cuda {

using exec::cuda::CudaExecutor;

/// True if `queries` go in one block of staging memory.
bool is_small_search(const QueriesRef& queries);

/// The executor's side of Backend::search for few queries: made for latency.
/// Shape   payloads are wanted.
/// Cost    one kernel and one wait; one copy more if the queries' columns exceed
///         kZeroCopyBytesMax.
/// Errors  IOError, MemoryLimit.
Status small_search(CudaExecutor& x, std::span<const RunRef> runs, const QueriesRef& queries,
                    const FoundRef& found);

}  // namespace breccia::runs::cuda
