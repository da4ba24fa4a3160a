#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "history.h"
#include "ordered/engine.h"

namespace breccia::linearize {

/// One client of a history: makes random operations on few keys and records what came of them.
/// Every value is written once in a history, so that a read says whose write it saw.
class Client {
 public:
  /// Their names are the prefix and a letter from a on.
  static constexpr std::uint64_t kKeys = 5;

  /// Keys begin with `prefix`, which other histories do not use. `ordered`: the store, if it has
  /// ranges, merges and snapshots; else null.
  Client(Store* store, ordered::Engine* ordered, std::string prefix, int number,
         std::uint64_t seed);

  void run(int operations);

  [[nodiscard]] const Recorder& recorder() const { return recorder_; }
  /// Transactions with writes in them, and those of them that were committed.
  [[nodiscard]] std::uint64_t transactions() const { return transactions_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }
  /// What went wrong, if anything did: no operation may fail.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  void run_one();
  void write_single();
  void read_single();
  void read_many();
  void read_range();
  void run_batch();
  void read_snapshot();
  void run_transaction();

  [[nodiscard]] std::string key();
  [[nodiscard]] std::string fresh_value();  // of 8 bytes
  [[nodiscard]] std::string end_of_keys() const;
  [[nodiscard]] WriteOptions options();
  void check(const Status& status);

  Store* store_;
  ordered::Engine* ordered_;
  const std::string prefix_;
  const int number_;
  base::Random random_;
  int values_ = 0;
  std::uint64_t transactions_ = 0;
  std::uint64_t commits_ = 0;
  Recorder recorder_;
  Batch batch_;
  std::string error_;
};

}  // namespace breccia::linearize
