#pragma once

#include <array>
#include <cstdint>

/// The lane contract: W lanes that run in step, W in {1, 4, 8, 16, 32}.
///
/// A device algorithm is a template over a Group type with three operations:
///   per_lane(f)     calls f(lane) for every lane and keeps the W results, read as results[lane].
///                   Cost: host W calls, CUDA one call per thread.
///   ballot(p)       a mask of the lanes for which p(lane) holds.  Cost: W calls / one vote.
///   from(lane, f)   f(lane) of one lane, known to all.            Cost: one call / one shuffle.
/// Outside the lane lambdas all code is group-uniform; per-lane data lives only in per_lane
/// results. Results may only be read at the index of the lane that asks, except through from().
///
/// HostGroup plays all lanes on one thread, CudaGroup gives each lane a thread, and SimGroup
/// (exec/sim/sim_group.h) lets a seeded scheduler switch between groups before each operation.

#if defined(__CUDACC__)
#define BRECCIA_HD __host__ __device__
/// Before a template that is compiled for both sides: nvcc need not check which side calls it.
#define BRECCIA_SINGLE_SOURCE _Pragma("nv_exec_check_disable")
#else
#define BRECCIA_HD
#define BRECCIA_SINGLE_SOURCE
#endif

namespace breccia::exec {

using LaneMask = std::uint32_t;

constexpr bool is_group_width(int width) {
  return width == 1 || width == 4 || width == 8 || width == 16 || width == 32;
}

constexpr LaneMask full_mask(int width) {
  return width == 32 ? ~LaneMask{0} : (LaneMask{1} << width) - 1;
}

/// Index of the lowest set bit of a mask that is not zero.
BRECCIA_HD inline int first_set(LaneMask mask) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(mask)) - 1;
#else
  return __builtin_ctz(mask);
#endif
}

/// Number of set bits.
BRECCIA_HD inline int count_set(LaneMask mask) {
#if defined(__CUDA_ARCH__)
  return __popc(mask);
#else
  return __builtin_popcount(mask);
#endif
}

template <int W>
struct HostGroup {
  static_assert(is_group_width(W));
  static constexpr int kWidth = W;

  template <class F>
  auto per_lane(F&& f) const {
    std::array<decltype(f(0)), W> value;
    for (int lane = 0; lane < W; ++lane) value[lane] = f(lane);
    return value;
  }
  template <class F>
  void each_lane(F&& f) const {
    for (int lane = 0; lane < W; ++lane) f(lane);
  }
  template <class P>
  LaneMask ballot(P&& p) const {
    LaneMask mask = 0;
    for (int lane = 0; lane < W; ++lane) mask |= LaneMask{p(lane) ? 1U : 0U} << lane;
    return mask;
  }
  template <class F>
  auto from(int lane, F&& f) const {
    return f(lane);
  }
};

#if defined(__CUDACC__)
/// This lane's share of a per_lane result; the index is the lane that asks.
template <class T>
struct LaneValue {
  T value;
  __device__ const T& operator[](int) const { return value; }
};

template <int W>
struct CudaGroup {
  static_assert(is_group_width(W));
  static constexpr int kWidth = W;
  int lane = static_cast<int>(threadIdx.x) % W;

  /// The group's lanes within its warp.
  __device__ LaneMask members() const {
    return full_mask(W) << (static_cast<int>(threadIdx.x) % 32 / W * W);
  }
  template <class F>
  __device__ auto per_lane(F&& f) const {
    return LaneValue<decltype(f(0))>{f(lane)};
  }
  template <class F>
  __device__ void each_lane(F&& f) const {
    f(lane);
  }
  template <class P>
  __device__ LaneMask ballot(P&& p) const {
    if constexpr (W == 1) {
      return p(0) ? 1U : 0U;
    } else {
      const LaneMask votes = __ballot_sync(members(), p(lane));
      return (votes >> (static_cast<int>(threadIdx.x) % 32 / W * W)) & full_mask(W);
    }
  }
  template <class F>
  __device__ auto from(int source, F&& f) const {
    decltype(f(source)) value{};
    if (lane == source) value = f(source);
    if constexpr (W == 1) {
      return value;
    } else {
      return __shfl_sync(members(), value, source, W);
    }
  }
};
#endif

/// Calls f(item) for the items [first, first + W) below `count`, one a lane.
BRECCIA_SINGLE_SOURCE
template <class Group, class F>
BRECCIA_HD void each_item(const Group& group, std::uint64_t first, std::uint64_t count,
                          const F& f) {
  group.each_lane([&](int lane) {
    const std::uint64_t item = first + static_cast<std::uint64_t>(lane);
    if (item < count) f(item);
  });
}

}  // namespace breccia::exec
