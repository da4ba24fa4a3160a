#pragma once

#include <atomic>
#include <cstdint>

#include "ordered/listeners.h"
#include "ordered/resident_files.h"
#include "ordered/state.h"
#include "ordered/statistics.h"
#include "ordered/tree_filters.h"
#include "tree/tree.h"
#include "wal/log.h"

namespace breccia::ordered {

class RequestCounter;

/// Whether the store was closed.
/// Threads any.
class Closed {
 public:
  void set() { closed_.store(true); }
  [[nodiscard]] bool is_set() const { return closed_.load(); }
  /// Errors  ShutdownInProgress: after set().
  [[nodiscard]] Status check() const {
    if (!closed_.load(std::memory_order_relaxed)) return Status::OK();
    return Status::ShutdownInProgress("the store is closed", "open it again");
  }

 private:
  std::atomic<bool> closed_{false};
};

/// Requests of a batch from which on it goes to the backend.
struct BackendMin {
  std::uint64_t reads;
  std::uint64_t writes;
};

/// What all rooms of the engine stand on, and what they tell of themselves.
/// Owner   all of it lives longer than they do.
struct StoreParts {
  ViewState* state;
  Backends* backends;
  wal::Log* log;
  tree::Tree* below;
  TreeFilters* filters;
  ResidentFiles* files;
  Fault* fault;
  const Closed* closed;
  Statistics* statistics;
  Listeners* listeners;
  const RequestCounter* counter;
  BackendMin backend_min;
};

}  // namespace breccia::ordered
