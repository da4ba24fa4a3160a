#pragma once

#include <cstddef>
#include <cstdint>
#include <cub/device/device_merge.cuh>
#include <cub/device/device_merge_sort.cuh>

#include "exec/cuda/cuda_executor.cuh"

/// The templates of CudaExecutor that need CUB, whose headers take three times as long to compile
/// as all else that its users include.
namespace breccia::exec::cuda {

template <class Less>
Status CudaExecutor::stable_sort(std::uint32_t* ids, std::uint64_t n, const Less& less) {
  if (n == 0) return Status::OK();
  return with_scratch([&](void* scratch, std::size_t& bytes) {
    return cub::DeviceMergeSort::StableSortKeys(scratch, bytes, ids, static_cast<std::int64_t>(n),
                                                less, stream());
  });
}

/// CUB promises no order among equals, but its merge path takes the first side's first; the
/// conformance suite holds it to that.
template <class Less>
Status CudaExecutor::merge(const std::uint32_t* a, std::uint64_t a_count, const std::uint32_t* b,
                           std::uint64_t b_count, std::uint32_t* out, const Less& less) {
  if (a_count == 0) return copy(out, b, b_count);
  if (b_count == 0) return copy(out, a, a_count);
  return with_scratch([&](void* scratch, std::size_t& bytes) {
    return cub::DeviceMerge::MergeKeys(scratch, bytes, a, static_cast<std::int64_t>(a_count), b,
                                       static_cast<std::int64_t>(b_count), out, less, stream());
  });
}

}  // namespace breccia::exec::cuda
