#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"

namespace breccia::exec::cuda {

/// `error` as a Status that names the place; OK for cudaSuccess. Clears CUDA's last error.
/// Errors  MemoryLimit: out of device or pinned memory; IOError: all else.
Status status_of(cudaError_t error, const char* file, int line);

}  // namespace breccia::exec::cuda

/// The Status of a CUDA runtime call.
#define BRECCIA_CUDA_STATUS(call) ::breccia::exec::cuda::status_of((call), __FILE__, __LINE__)

/// Returns the Status of a CUDA runtime call from the calling function unless it succeeded.
#define BRECCIA_CUDA_TRY(call) BRECCIA_TRY(BRECCIA_CUDA_STATUS(call))
