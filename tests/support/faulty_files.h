#pragma once

#include <rocksdb/env.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "wal/files.h"

/// File systems whose k-th call fails: under the log and under the tree.

namespace breccia::testing {

/// When a call that fails does so: without having done anything, or when its work is done.
enum class When { kBefore, kAfter };

/// Counts calls; the one chosen fails.
/// Threads any.
class CallFaults {
 public:
  /// Lets the `k`-th call from now fail with `status`, the first being 1. 0: none.
  void fail_call(std::uint64_t k, const Status& status, When when = When::kBefore) {
    status_ = status;
    when_ = when;
    calls_ = 0;
    fail_at_ = k;
  }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] bool struck() const { return fail_at_ != 0 && calls_ >= fail_at_; }
  /// For the faulty side: makes a call by work(), whose result can be made of a status by
  /// failure(status).
  template <class Work, class Failure>
  auto call(const Work& work, const Failure& failure) -> decltype(work()) {
    if (++calls_ != fail_at_) return work();
    if (when_ == When::kAfter) (void)work();
    return failure(status_);
  }
  template <class Work>
  auto call(const Work& work) -> decltype(work()) {
    return call(work, [](const Status& status) { return status; });
  }

 private:
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> fail_at_{0};
  Status status_;
  When when_ = When::kBefore;
};

/// `below`, where every call on a folder or a file may fail. Owner: `faults` lives longer.
[[nodiscard]] std::shared_ptr<wal::Files> make_faulty_files(std::shared_ptr<wal::Files> below,
                                                            CallFaults* faults);

/// The default Env with a log in sparse files, on which every call may fail.
/// Owner: `faults` lives longer.
[[nodiscard]] std::unique_ptr<rocksdb::Env> make_faulty_log_env(CallFaults* faults);

/// The same, where calls that change files of the tree may fail, and none on the log; RocksDB's own
/// LOG files are spared.
/// Owner: `faults` lives longer.
[[nodiscard]] std::unique_ptr<rocksdb::Env> make_faulty_env(CallFaults* faults);

}  // namespace breccia::testing
