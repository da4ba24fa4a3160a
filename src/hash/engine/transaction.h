#pragma once

#include <breccia/transaction.h>

#include <vector>

#include "hash/engine/engine.h"

namespace breccia::hash {

/// A transaction over the hash engine. Each Read checks that what the ones before it found is still
/// so, and Close does, so all of them are as of one moment: that of the last one.
class HashTransaction final : public Transaction {
 public:
  /// Owner   `engine` lives longer.
  HashTransaction(Engine* engine, Batch batch) : engine_(engine), batch_(std::move(batch)) {}

  [[nodiscard]] Batch& batch() override { return batch_; }
  Status Read(Batch* reads) override;
  Status Close(const WriteOptions& options) override;

 private:
  Engine* const engine_;
  Batch batch_;
  std::vector<Seen> seen_;
  bool is_closed_ = false;
};

}  // namespace breccia::hash
