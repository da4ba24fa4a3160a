#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "batch/async_queue.h"
#include "batch/requests.h"

namespace breccia::batch {

/// Runs the groups of an AsyncQueue on an engine, each as one batch if that can be.
/// Threads one.
class Together {
 public:
  /// What it asks of the engine.
  struct Engine {
    /// Whether the batch, by itself, is one that the engine takes.
    std::function<Status(const Requests& requests)> check;
    std::function<Status(const WriteOptions& options, Requests* requests)> submit;
    /// For batches that are put together.
    std::function<std::shared_ptr<exec::HostMemory>()> memory;
    /// So many batches ran in one submit.
    std::function<void(std::uint64_t batches)> note;
  };

  explicit Together(Engine engine) : engine_(std::move(engine)) {}

  /// Runs the batches, and leaves each one's status.
  void run(std::span<AsyncBatch> group);

 private:
  void run_alone(AsyncBatch* one);
  Status run_together(std::span<AsyncBatch> group);
  Status submit_together(std::span<AsyncBatch* const> batches);

  const Engine engine_;
};

}  // namespace breccia::batch
