#pragma once

#include <rocksdb/env.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "wal/files.h"

/// File systems whose k-th call fails: under the log and under the tree.

namespace breccia::testing {

/// Counts calls; the one chosen fails.
/// Threads any.
class CallFaults {
 public:
  /// Lets the `k`-th call from now fail with `status`, the first being 1. 0: none.
  void fail_call(std::uint64_t k, const Status& status) {
    status_ = status;
    calls_ = 0;
    fail_at_ = k;
  }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] bool struck() const { return fail_at_ != 0 && calls_ >= fail_at_; }
  /// To be called by the faulty side: the status of this call.
  [[nodiscard]] Status next() { return ++calls_ == fail_at_ ? status_ : Status::OK(); }

 private:
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> fail_at_{0};
  Status status_;
};

/// `below`, where every call on a folder or a file may fail. Owner: `faults` lives longer.
[[nodiscard]] std::shared_ptr<wal::Files> make_faulty_files(std::shared_ptr<wal::Files> below,
                                                            CallFaults* faults);

/// The default Env, where calls that change files may fail; RocksDB's own LOG files are spared.
/// Owner: `faults` lives longer.
[[nodiscard]] std::unique_ptr<rocksdb::Env> make_faulty_env(CallFaults* faults);

}  // namespace breccia::testing
