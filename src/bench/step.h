#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/driver.h"

/// What a suite runs, how, and what it measures of it.
namespace breccia::bench {

struct Step {
  std::string name;
  DriverConfig driver;
  DriverStreams streams;
  /// Lookups that read back what the step should have left, after the clock; null: none.
  std::function<std::unique_ptr<Stream>()> state;
  std::uint64_t state_requests = 0;
  /// False: results depend on how threads interleave or on time, so engines cannot be compared.
  bool comparable = true;
  /// Not a benchmark: moves everything into SST files.
  bool flush = false;
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
  std::uint64_t num = 0;
  std::uint64_t seed = 0;
  std::uint32_t key_size = 0;
  std::uint32_t value_size = 0;
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
  bool hashed = false;
  std::uint64_t hash = 0;
  std::uint64_t reads_sampled = 0;  // lookups that went into the hash
  std::uint64_t reads_found = 0;    // and found their key

  [[nodiscard]] double requests_per_s() const {
    return seconds > 0 ? static_cast<double>(requests) / seconds : 0;
  }
};

}  // namespace breccia::bench
