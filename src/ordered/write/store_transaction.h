#pragma once

#include <breccia/transaction.h>

#include <vector>

#include "ordered/read/history.h"
#include "ordered/read/lookups.h"
#include "ordered/write/writer.h"

namespace breccia::ordered {

/// Transactions over the engine.
class StoreTransaction final : public Transaction {
 public:
  /// Reads as of `pin`, for which `history` was held before it was taken, so that no flush came
  /// between. `batch`: an empty one.
  StoreTransaction(Writer* writer, const Lookups* lookups, History::Hold history, Pin pin,
                   Batch batch)
      : writer_(writer),
        lookups_(lookups),
        history_(std::move(history)),
        pin_(std::move(pin)),
        batch_(std::move(batch)) {}

  [[nodiscard]] Batch& batch() override { return batch_; }
  Status Read(Batch* reads) override;
  Status Close(const WriteOptions& options) override;

 private:
  [[nodiscard]] ReadSet read_set() const;

  Writer* const writer_;
  const Lookups* const lookups_;
  History::Hold history_;
  Pin pin_;
  Batch batch_;
  std::vector<Batch*> reads_;
  bool is_open_ = true;
};

}  // namespace breccia::ordered
