#include "batch/together.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "base/memory.h"
#include "base/sometimes.h"

namespace breccia::batch {

void Together::run_alone(AsyncBatch* one) {
  BRECCIA_ASSERT(one->requests != nullptr);
  one->status = engine_.submit(one->options, one->requests);
}

void Together::run(std::span<AsyncBatch> group) {
  BRECCIA_ASSERT(!group.empty());
  if (group.size() == 1) return run_alone(&group.front());
  const Status status = base::or_memory_limit([&] { return run_together(group); });
  if (status.ok()) return;
  // Nothing of the group was written, and whoever may have been the cause must not spoil it for the
  // others. But those that found no room have waited long enough; and of an error that stops the
  // store each is to hear, as it may be in the log: by itself it might say that it found no memory.
  const bool is_undone =
      status.IsMemoryLimit() || status.IsInvalidArgument() || status.IsNotSupported();
  for (AsyncBatch& one : group) {
    if (!one.status.ok()) continue;  // it was never among them
    if (!is_undone && one.requests->write_count() > 0) {
      one.status = base::copy_of(status);
    } else {
      run_alone(&one);
    }
  }
}

/// Submits those that can be as one batch; the others get their status.
Status Together::run_together(std::span<AsyncBatch> group) {
  std::vector<AsyncBatch*> together;
  for (AsyncBatch& one : group) {
    one.status = engine_.check(*one.requests);
    if (one.status.ok()) together.push_back(&one);
  }
  return submit_together(together);
}

/// Submits the requests of all batches as one batch, and hands the results to each. Those lie in
/// the large batch's memory, in which each of the small ones holds a share.
Status Together::submit_together(std::span<AsyncBatch* const> batches) {
  if (batches.empty()) return Status::OK();
  BRECCIA_ASSERT(batches.front()->status.ok());
  const auto all = std::make_shared<Requests>(engine_.memory());
  const Status no_memory = Status::MemoryLimit("no memory to run batches together");
  if (BRECCIA_SOMETIMES(10)) return no_memory;
  // The log is held for all of them: only where each has asked for that.
  all->set_values_in_place(std::all_of(batches.begin(), batches.end(), [](const AsyncBatch* one) {
    return one->requests->values_in_place();
  }));
  for (const AsyncBatch* const one : batches) {
    if (!all->append(*one->requests)) return no_memory;
    if (!one->requests->prepare_results(/*parts=*/0, /*with_bounds=*/false)) return no_memory;
  }
  BRECCIA_TRY(engine_.submit(batches.front()->options, all.get()));
  for (const AsyncBatch* const one : batches) {
    all->hand_over(one->requests);
    one->requests->deliver();
    one->requests->hold(all);
  }
  engine_.note(batches.size());
  return Status::OK();
}

}  // namespace breccia::batch
