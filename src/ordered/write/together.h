#pragma once

#include <span>

#include "ordered/write/async_queue.h"
#include "ordered/write/writer.h"

namespace breccia::ordered {

/// Runs the groups of an AsyncQueue.
/// Threads one.
class Together {
 public:
  Together(const StoreParts& parts, Writer* writer) : parts_(parts), writer_(writer) {}

  /// Runs the batches as one, if that can be, and leaves each one's status.
  void run(std::span<AsyncBatch> group);

 private:
  void run_alone(AsyncBatch* one);
  Status run_together(std::span<AsyncBatch> group);
  Status submit_together(std::span<AsyncBatch* const> batches);

  const StoreParts parts_;
  Writer* writer_;
};

}  // namespace breccia::ordered
