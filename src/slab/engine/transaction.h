#pragma once

#include <breccia/transaction.h>

#include <utility>
#include <vector>

#include "slab/engine/engine.h"

namespace breccia::slab {

/// A transaction over the slab engine. Each Read checks that what the ones before it found is still
/// so, and Close does, so all of them are as of one moment: that of the last one.
class SlabTransaction final : public Transaction {
 public:
  /// Owner   `engine` lives longer.
  SlabTransaction(Engine* engine, Batch batch) : engine_(engine), batch_(std::move(batch)) {}

  [[nodiscard]] Batch& batch() override { return batch_; }
  Status Read(Batch* reads) override;
  Status Close(const WriteOptions& options) override;

 private:
  Engine* const engine_;
  Batch batch_;
  std::vector<Seen> seen_;
  bool is_closed_ = false;
};

}  // namespace breccia::slab
