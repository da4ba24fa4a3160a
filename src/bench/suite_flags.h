#pragma once

#include <string>
#include <vector>

#include "bench/suite.h"
#include "console/app.h"

namespace breccia::bench {

/// Flags that `bench` and `bench ycsb` share, with db_bench's names where it has one.
struct SuiteFlags {
  std::string db;
  std::string wal_dir;
  bool use_existing_db = false;
  std::string engine = "breccia";
  std::string cluster;
  std::string backend = "auto";
  int device = 0;
  std::vector<std::string> compare;
  std::uint32_t rounds = 5;
  bool rocksdb_plain = false;
  bool sync = false;
  bool disable_wal = false;
  std::uint64_t memtable_bytes = 0;
  std::uint64_t log_segment_bytes = 0;
  std::uint64_t log_preallocate_bytes = 0;
  std::int64_t clean_bytes = -1;
  std::int64_t entry_cache_bytes = -1;
  std::uint64_t residency_bytes = 0;
  std::uint64_t hot_keys = 0;
  std::uint64_t cache_size = 0;
  int bloom_bits = -1;
  std::string compression = "snappy";
  bool no_compactions = false;
  std::string rocksdb_options;
  std::uint32_t threads = 1;
  std::uint32_t batch_size = 1;
  bool prebuilt = false;
  bool ready = false;
  bool in_place = false;
  bool columns = false;
  bool registered = false;
  bool verify = false;
  bool histogram = false;
  bool json = false;
  std::string json_file;
  bool no_machine = false;
  bool progress = false;
  std::uint64_t seed = 1;
  std::string state = "memtable";

  void add_to(console::App* app);
  /// Sets what the flags say.
  /// Errors  words: flags that do not go together.
  [[nodiscard]] std::string fill(SuiteConfig* suite) const;
  /// A driver set by the flags for so many requests per thread.
  [[nodiscard]] DriverConfig driver(std::uint64_t requests_per_thread) const;
  /// Of so many results one is looked at, and of so many keys one is read back after a step.
  [[nodiscard]] std::uint64_t sample_every() const { return verify ? 1 : Sampling().every; }

 private:
  void add_running_to(console::App* app);
};

/// Prints a result as the flags want it.
void report_step(const SuiteConfig& suite, const Step& step, const StepResult& result,
                 const DriverOutcome& outcome);

/// Measures the machine and keeps its row, where rows are kept and it is not to be left out.
/// Bound   that of measure_machine.
/// Errors  those of measure_machine.
Status report_machine(const SuiteConfig& suite);

/// Warns on stderr of a RocksDB whose figures are too low.
void warn_of_environment();

}  // namespace breccia::bench
