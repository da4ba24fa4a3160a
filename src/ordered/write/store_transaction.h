#pragma once

#include <breccia/transaction.h>

#include <vector>

#include "ordered/engine.h"

namespace breccia::ordered {

/// Transactions over an Engine.
class StoreTransaction final : public Transaction {
 public:
  explicit StoreTransaction(Engine* engine);

  [[nodiscard]] Batch& batch() override { return batch_; }
  Status Read(Batch* reads) override;
  Status Close(const WriteOptions& options) override;

 private:
  [[nodiscard]] ReadSet read_set() const;

  Engine* const engine_;
  History::Hold history_;  // held before the pin is taken, so that no flush comes between
  Pin pin_;
  Batch batch_;
  std::vector<Batch*> reads_;
  bool is_open_ = true;
};

}  // namespace breccia::ordered
