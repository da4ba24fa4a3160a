#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <utility>

namespace breccia::base {

/// tbb::parallel_for whose waiting caller runs nothing but this loop's own iterations. The store is
/// called from tasks of its users and waits for other callers in places: an iteration of the user's
/// own loop, begun inside ours, could wait for the one it was begun in.
template <class... Arguments>
void parallel_for(Arguments&&... arguments) {
  tbb::this_task_arena::isolate([&] { tbb::parallel_for(std::forward<Arguments>(arguments)...); });
}

}  // namespace breccia::base
