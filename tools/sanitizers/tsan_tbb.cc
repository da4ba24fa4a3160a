// Linked into the test programs of the tsan preset. TBB hands its tasks over inside a library that
// is not instrumented, so every task on a worker thread looks like a race. Without workers each
// caller runs its own tasks; races between the threads that we start are still found.
#include <tbb/global_control.h>

namespace {
const tbb::global_control no_workers(tbb::global_control::max_allowed_parallelism, 1);
}  // namespace
