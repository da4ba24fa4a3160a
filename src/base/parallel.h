#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/memory.h"

namespace breccia::base {

/// tbb::parallel_for that is nobody else's. The store is called from tasks of its users: a waiting
/// caller runs nothing but this loop's own iterations, as one of the user's own loop, begun inside
/// ours, could wait for the one it was begun in; and what cancels the user's tasks leaves out none
/// of ours.
template <class... Arguments>
void parallel_for(Arguments&&... arguments) {
  tbb::task_group_context context(tbb::task_group_context::isolated);
  tbb::this_task_arena::isolate(
      [&] { tbb::parallel_for(std::forward<Arguments>(arguments)..., context); });
}

/// One of the threads that are in a shared loop.
/// Threads any.
class SharedLoop {
 public:
  SharedLoop() : others_(callers_.fetch_add(1, std::memory_order_relaxed)) {}
  ~SharedLoop() { callers_.fetch_sub(1, std::memory_order_relaxed); }
  SharedLoop(const SharedLoop&) = delete;
  SharedLoop& operator=(const SharedLoop&) = delete;

  /// True if cores may be idle that could help.
  [[nodiscard]] bool may_share() const {
    static const std::uint32_t cores = std::max(2U, std::thread::hardware_concurrency());
    return others_ + 1 < cores;
  }

 private:
  static inline std::atomic<std::uint32_t> callers_{0};
  const std::uint32_t others_;
};

/// parallel_for() of what only computes. Where as many call it as there are cores, each goes
/// through its own loop: threads that take pieces from one another then cost and bring nothing.
template <class Index, class Work>
void shared_for(Index begin, Index end, const Work& work) {
  const SharedLoop loop;
  if (loop.may_share()) return parallel_for(begin, end, work);
  for (; begin < end; ++begin) work(begin);
}

/// work(part) for each part, by many cores, or, where they want memory for that, by this one.
/// Shape   work throws nothing, and may be done twice.
template <class Work>
void shared_or_alone(std::uint64_t parts, const Work& work) {
  const Status shared = parts == 1 ? Status::MemoryLimit() : or_memory_limit([&] {
    shared_for(std::uint64_t{0}, parts, work);
    return Status::OK();
  });
  for (std::uint64_t part = 0; !shared.ok() && part < parts; ++part) work(part);
}

namespace claims {

/// Whoever calls it does the next part. Not in base: TBB would find base's parallel_for by it.
template <class Work>
struct Next {
  std::atomic<std::uint64_t>& next;
  std::uint64_t parts;
  const Work& work;

  void operator()(std::uint64_t /*part*/) const {
    const std::uint64_t part = next.fetch_add(1, std::memory_order_relaxed);
    if (part < parts) work(part);
  }
};

}  // namespace claims

/// The same of work that must not be done twice.
template <class Work>
void shared_once(std::uint64_t parts, const Work& work) {
  std::atomic<std::uint64_t> next{0};
  shared_or_alone(parts, claims::Next<Work>{next, parts, work});
}

}  // namespace breccia::base
