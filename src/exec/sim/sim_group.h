#pragma once

#include <array>
#include <cstdint>

#include "base/assert.h"
#include "exec/group.h"
#include "exec/sim/scheduler.h"

namespace breccia::exec::sim {

/// The results of a per_lane call. Each may be read only by the lane that it belongs to: on a
/// device it lies in that lane's registers.
template <class T, int W>
class LaneValues {
 public:
  LaneValues(const std::array<T, W>& values, const int* asking)
      : values_(values), asking_(asking) {}
  const T& operator[](int lane) const {
    BRECCIA_ASSERT(lane == *asking_);
    return values_[lane];
  }

 private:
  std::array<T, W> values_;
  const int* asking_;
};

/// The lane contract (exec/group.h) under a scheduler: before each operation rivals may go on, and
/// lanes are visited in an order of the seed's choice.
template <int W>
class SimGroup {
  static_assert(is_group_width(W));

 public:
  static constexpr int kWidth = W;

  explicit SimGroup(Scheduler& scheduler) : scheduler_(scheduler) {}
  SimGroup(const SimGroup&) = delete;
  SimGroup& operator=(const SimGroup&) = delete;

  /// For atomics: rivals may go on before each, also while a lane is at work.
  void may_switch() const { scheduler_.step(); }

  template <class F>
  auto per_lane(F&& f) const {
    std::array<decltype(f(0)), W> value;
    visit([&](int lane) { value[lane] = f(lane); });
    return LaneValues<decltype(f(0)), W>(value, &asking_);
  }
  template <class F>
  void each_lane(F&& f) const {
    visit(f);
  }
  template <class P>
  LaneMask ballot(P&& p) const {
    LaneMask mask = 0;
    visit([&](int lane) { mask |= LaneMask{p(lane) ? 1U : 0U} << lane; });
    return mask;
  }
  template <class F>
  auto from(int lane, F&& f) const {
    BRECCIA_ASSERT(lane >= 0 && lane < W);
    scheduler_.step();
    asking_ = lane;
    const auto value = f(lane);
    asking_ = kNoLane;
    return value;
  }

 private:
  static constexpr int kNoLane = -1;

  template <class F>
  void visit(F&& f) const {
    BRECCIA_ASSERT(asking_ == kNoLane);
    scheduler_.step();
    // An odd stride visits every lane of a power of two once.
    const std::uint64_t draw = scheduler_.random().next();
    const int stride = static_cast<int>(draw % W) | 1;
    const int begin = static_cast<int>(draw / W % W);
    for (int i = 0; i < W; ++i) {
      asking_ = (begin + i * stride) % W;
      f(asking_);
    }
    asking_ = kNoLane;
  }

  Scheduler& scheduler_;
  mutable int asking_ = kNoLane;  // the lane that runs now
};

}  // namespace breccia::exec::sim
