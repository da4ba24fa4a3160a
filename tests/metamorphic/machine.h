#pragma once

#include <rocksdb/env.h>

#include <atomic>
#include <memory>

#include "support/fake_gpu.h"
#include "wal/files_env.h"

namespace breccia::metamorphic {

/// What is under one life of a store: file systems, and the faults of a fake device. After crash()
/// nothing that the store does changes a file: they are as a killed process leaves them, whatever
/// its threads were about to do. A mapped log is written by stores, which go on; the store does
/// none that a file's change would not follow.
///
/// Owner   lives longer than the store.
class Machine {
 public:
  /// `log`: the files under the log; new ones are made sparse.
  explicit Machine(std::shared_ptr<wal::Files> log);

  void crash() { crashed_.store(true); }
  [[nodiscard]] rocksdb::Env* env() const { return env_.get(); }
  [[nodiscard]] testing::FakeGpu& fake_gpu() { return fake_gpu_; }

 private:
  std::atomic<bool> crashed_{false};
  std::unique_ptr<rocksdb::Env> env_;
  testing::FakeGpu fake_gpu_;
};

}  // namespace breccia::metamorphic
