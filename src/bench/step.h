#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/driver.h"

/// What a suite runs, how, and what it measures of it.
namespace breccia::bench {

/// Where what was written lies when a benchmark that reads begins.
enum class State {
  kMemtable,  // as it was written
  kClean,     // flushed, and what the engine keeps in memory of it
  kTreeWarm,  // flushed, opened again, and looked through once
  kTreeCold,  // flushed, opened again, and the files dropped from the system's cache
};

struct Step {
  std::string name;
  DriverConfig driver;
  DriverStreams streams;
  /// Lookups that read back what the step should have left, after the clock; null: none.
  std::function<std::unique_ptr<Stream>()> read_back;
  std::uint64_t read_back_requests = 0;
  /// False: results depend on how threads interleave or on time, so engines cannot be compared.
  bool comparable = true;
  /// Not a benchmark: moves everything into SST files.
  bool flush = false;
  /// Not a benchmark, either: the same, and compacts these into one level.
  bool compact = false;
  /// A benchmark that reads: what was written is brought into `state` before it.
  bool reads = false;
  State state = State::kMemtable;
  bool only_reads = false;
  bool scans = false;
  /// It writes keys that are not there yet, and its time ends when they lie in SST files.
  bool loads = false;
  bool merges = false;
  /// Lookups that warm a tree before the clock of a step that reads.
  DriverStreams warming;
  DriverConfig warming_driver;
};

/// What a benchmark's entries are.
struct Data {
  std::uint64_t num = 0;   // requests per thread, as a user said
  std::uint64_t keys = 0;  // distinct, of all threads together
  std::string key_set;
  std::uint32_t key_size = 0;  // in the mean
  std::uint32_t value_size = 0;
  double skew = 0;
  double misses = 0;
};

/// What a user asked for, beside the steps.
struct SuiteConfig {
  Place place;
  bool use_existing_db = false;
  EngineConfig engine;
  std::vector<std::string> compare;  // engines; empty: run engine.engine once
  std::uint32_t rounds = 5;
  bool live = false;
  bool json = false;
  bool histogram = false;
  std::string json_file;
  bool skip_machine = false;  // its limits are no row
  std::uint64_t seed = 0;
  bool rocksdb_best = false;  // a probe chooses how RocksDB is used
  Data data;
};

struct StepResult {
  std::string step;
  std::string engine;
  std::string backend;
  std::uint32_t round = 0;
  std::uint64_t requests = 0;
  double seconds = 0;
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
  double call_share = 1;                  // of the threads' time, with the filling of batches
  bool filling_included = true;           // in `seconds`
  std::vector<std::uint64_t> per_second;  // requests of each whole second
  std::uint64_t disk_bytes = 0;           // given to disks meanwhile
  InEffect in_effect;
  std::string settings;  // how the engine is used
  bool hashed = false;
  std::uint64_t hash = 0;
  std::uint64_t reads_sampled = 0;  // lookups that went into the hash
  std::uint64_t reads_found = 0;    // and found their key

  [[nodiscard]] double requests_per_s() const {
    return seconds > 0 ? static_cast<double>(requests) / seconds : 0;
  }
  /// With the filling of batches, and as if it took no time. One of them is what was measured, the
  /// other comes from it by the share of the engine's calls.
  [[nodiscard]] double with_filling() const {
    return filling_included ? requests_per_s() : requests_per_s() * call_share;
  }
  [[nodiscard]] double store_alone() const {
    return filling_included ? requests_per_s() / call_share : requests_per_s();
  }
};

}  // namespace breccia::bench
