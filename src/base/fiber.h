#pragma once

#include <cstddef>
#include <memory>

namespace breccia::base {

/// A place to go on from, with a stack of its own: for simulators, which run the threads of a
/// program on one, and decide who goes on.
///
/// Shape   a fiber does not switch while it handles an exception.
/// Threads one at a time; the thread may change whenever no fiber but a thread's own runs.
class Fiber {
 public:
  using Body = void (*)(void* of);

  /// The place of whichever thread switches from it.
  Fiber();
  /// Begins with body(of) when it is switched to, and never returns from it.
  Fiber(std::size_t stack_bytes, Body body, void* of);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Called by who runs, as its own member: goes on with `to`, until somebody switches back.
  void switch_to(Fiber& to);

 private:
  struct Place;
  const std::unique_ptr<Place> place_;
};

}  // namespace breccia::base
