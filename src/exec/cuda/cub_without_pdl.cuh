#pragma once

#include <cuda/std/__cccl/cuda_capabilities.h>
#include <cub/version.cuh>

/// Comes before everything else in every CUDA file (cmake/cuda.cmake). CUB's kernels may begin
/// while the one before them ends (programmatic dependent launch, from sm_90 on) and wait for it
/// where they need what it wrote. Before CCCL 3.1 the merge sort reads its partitions before that
/// wait (github.com/NVIDIA/cccl/pull/5456): now and then it reads what lay there before, and sorts
/// wrongly or out of bounds. Without such launches each kernel begins when the one before has
/// ended.
#if CUB_VERSION < 300102
#undef _CCCL_HAS_PDL
#define _CCCL_HAS_PDL 0
#undef _CCCL_PDL_GRID_DEPENDENCY_SYNC
#define _CCCL_PDL_GRID_DEPENDENCY_SYNC()
#undef _CCCL_PDL_TRIGGER_NEXT_LAUNCH
#define _CCCL_PDL_TRIGGER_NEXT_LAUNCH()
#endif
