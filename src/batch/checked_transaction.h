#pragma once

#include <breccia/transaction.h>

#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/memory.h"
#include "batch/requests.h"

namespace breccia::batch {

/// A transaction over an engine of single keys. Each Read checks that what the ones before it found
/// is still so, and Close does, so all of them are as of one moment: that of the last one.
/// Owner   the engine lives longer.
/// Engine offers look(seen, requests, found) and submit(options, seen, requests), which happen if
/// what was seen is still so; `Seen` is {reads, found}.
template <class Engine, class Seen>
class CheckedTransaction final : public Transaction {
 public:
  CheckedTransaction(Engine* engine, Batch batch) : engine_(engine), batch_(std::move(batch)) {}

  [[nodiscard]] Batch& batch() override { return batch_; }
  Status Read(Batch* reads) override {
    return base::or_memory_limit([&] {
      Requests& requests = reads->requests();
      if (is_closed_) return Status::InvalidArgument("the transaction was closed");
      if (requests.write_count() > 0) {
        return Status::InvalidArgument("writes among what a transaction reads",
                                       "put them into its batch()");
      }
      decltype(Seen::found) found;
      BRECCIA_TRY(engine_->look(seen_, &requests, &found));
      BRECCIA_ASSERT(engine_ != nullptr && requests.write_count() == 0);
      seen_.push_back({&requests, std::move(found)});
      return Status::OK();
    });
  }
  Status Close(const WriteOptions& options) override {
    if (std::exchange(is_closed_, true)) {
      return Status::InvalidArgument("the transaction was closed");
    }
    BRECCIA_ASSERT(engine_ != nullptr);
    return engine_->submit(options, seen_, &batch_.requests());
  }

 private:
  Engine* const engine_;
  Batch batch_;
  std::vector<Seen> seen_;
  bool is_closed_ = false;
};

}  // namespace breccia::batch
