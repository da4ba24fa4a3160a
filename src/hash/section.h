#pragma once

#include <mutex>

#include "base/section_mutex.h"
#include "exec/in_flight.h"

namespace breccia::hash {

/// Has what batches share for itself: behind those, and behind lookups that nobody waited for.
class Section {
 public:
  Section(base::SectionMutex& mutex, exec::InFlight& in_flight) : lock_(mutex) {
    in_flight.finish_all();
  }

 private:
  const std::unique_lock<base::SectionMutex> lock_;
};

}  // namespace breccia::hash
