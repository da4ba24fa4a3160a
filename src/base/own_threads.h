#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/memory.h"

namespace breccia::base {

/// How a thread gets at cores that others want, too.
enum class Urgency {
  kUsual,
  kBackground,  // a tenth of what another thread gets, and all that nobody else wants
};

/// Makes the calling thread one of the background, for good, and does the work there: alone, as
/// threads that oneTBB made for it would stay in the background, too, and do others' work.
void run_in_background(const std::function<void()>& work) noexcept;

/// work(part) for each part, by this thread and others of their own, one for each part as far as
/// they can be had. For what waits for files or devices, and for what must get on while all of
/// oneTBB's threads are busy with others' tasks, of which it shares as many as there are callers.
/// Shape   work throws nothing.
template <class Work>
void in_own_threads(std::size_t parts, const Work& work, Urgency urgency = Urgency::kUsual) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t part = next++; part < parts; part = next++) work(part);
  };
  std::vector<std::jthread> others;
  (void)or_error([&] {
    others.reserve(parts);
    while (others.size() + 1 < parts) {
      others.emplace_back([&take, urgency] {
        urgency == Urgency::kBackground ? run_in_background(std::cref(take)) : take();
      });
    }
    return Status::OK();
  });
  take();
}

}  // namespace breccia::base
