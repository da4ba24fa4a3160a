#pragma once

#include "exec/atomics.h"

#if !defined(__CUDA_ARCH__)
#include <thread>
#endif

namespace breccia::exec {

/// For a group that found that another one has to do something first, in its `turn`-th try: lets
/// others go on for a while that grows.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void back_off(const Group& group, int turn) {
  atomics::may_switch(group);
#if defined(__CUDA_ARCH__)
  constexpr unsigned kFirstNs = 32;
  constexpr int kDoublings = 10;
  __nanosleep(kFirstNs << (turn < kDoublings ? turn : kDoublings));
#else
  constexpr int kSpins = 32;  // the other one is about to be done, if it has a core
  if constexpr (!requires { group.may_switch(); }) {
    if (turn >= kSpins) std::this_thread::yield();
  }
#endif
}

}  // namespace breccia::exec
