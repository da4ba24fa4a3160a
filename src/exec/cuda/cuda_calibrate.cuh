#pragma once

#include "base/result.h"
#include "exec/calibrate.h"
#include "exec/cuda/cuda_executor.cuh"

namespace breccia::exec::cuda {

/// Measures what the device and its bus can do.
/// Bound   about 0.2 seconds the first time for a device; later calls return the same figures.
/// Errors  IOError, MemoryLimit.
Result<Calibration> measure(CudaDevice& device, CudaExecutor& x);

}  // namespace breccia::exec::cuda
