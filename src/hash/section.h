#pragma once

#include <mutex>
#include <optional>

#include "base/section_mutex.h"
#include "exec/in_flight.h"

namespace breccia::hash {

/// Has what batches share for itself: behind those, and behind lookups that nobody waited for.
class Section {
 public:
  Section(base::SectionMutex& mutex, exec::InFlight& in_flight) : lock_(mutex) {
    in_flight.finish_all();
  }
  /// None if such a lookup is under way: who shares it is waited for, a caller's stream is not.
  static std::optional<Section> try_once(base::SectionMutex& mutex, exec::InFlight& in_flight) {
    if (!in_flight.reap()) return std::nullopt;
    Section section(mutex);
    if (!in_flight.reap()) return std::nullopt;  // it came in between
    return section;
  }

 private:
  explicit Section(base::SectionMutex& mutex) : lock_(mutex) {}

  std::unique_lock<base::SectionMutex> lock_;
};

}  // namespace breccia::hash
