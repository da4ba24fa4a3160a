#include "base/own_threads.h"

#include <sys/resource.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cerrno>

namespace breccia::base {

namespace {

/// Ten steps of 1.25 each.
constexpr int kStepsDown = 10;
constexpr int kNiceMax = 19;

void give_way() {
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);  // on Linux the calling thread's; -1 is one, too
  if (errno != 0) return;
  (void)::setpriority(PRIO_PROCESS, 0, std::min(nice + kStepsDown, kNiceMax));
}

}  // namespace

// A thread for which there is no memory stays as it is, and does the same work.
void run_in_background(const std::function<void()>& work) noexcept {
  const Status alone = or_error([&] {
    tbb::task_arena arena(1);
    arena.initialize();
    give_way();
    arena.execute(work);
    return Status::OK();
  });
  if (!alone.ok()) work();  // its parts that are done are not taken again
}

}  // namespace breccia::base
