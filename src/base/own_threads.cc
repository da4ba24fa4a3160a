#include "base/own_threads.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace breccia::base {

namespace {

/// Ten steps of 1.25 each.
constexpr int kStepsDown = 10;
constexpr int kNiceMax = 19;

}  // namespace

// Of a process without a nice value of its own -1 is an answer, so errno tells. Advice: a thread
// that stays as it is does the same work.
void enter_background() noexcept {
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);  // on Linux the calling thread's
  if (errno != 0) return;
  (void)::setpriority(PRIO_PROCESS, 0, std::min(nice + kStepsDown, kNiceMax));
}

}  // namespace breccia::base
