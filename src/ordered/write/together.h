#pragma once

#include <span>

#include "batch/async_queue.h"
#include "ordered/write/writer.h"

namespace breccia::ordered {

/// Runs the groups of an batch::AsyncQueue.
/// Threads one.
class Together {
 public:
  Together(const StoreParts& parts, Writer* writer) : parts_(parts), writer_(writer) {}

  /// Runs the batches as one, if that can be, and leaves each one's status.
  void run(std::span<batch::AsyncBatch> group);

 private:
  void run_alone(batch::AsyncBatch* one);
  Status run_together(std::span<batch::AsyncBatch> group);
  Status submit_together(std::span<batch::AsyncBatch* const> batches);

  const StoreParts parts_;
  Writer* writer_;
};

}  // namespace breccia::ordered
