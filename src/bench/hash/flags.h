#pragma once

#include <cstdint>
#include <string>

#include "console/app.h"
#include "hash/shapes/shape.h"

namespace breccia::bench::tables {

/// What `breccia bench hash` is asked for. Lists are words with commas between them.
struct HashFlags {
  std::string backend = "auto";
  std::uint64_t entries = 1 << 22;
  std::uint64_t requests = 0;  // of the workloads that draw keys; 0: as many as entries
  std::string workloads = "micro";
  std::uint32_t bag_ids = 4;
  std::uint32_t edges = 16;
  std::uint32_t iterations = 3;
  std::string peers = "none";
  std::string load_percents = "50,95";
  std::string batch_sizes = "1048576";
  std::string lanes = "4";
  std::string table_shapes;  // none: Breccia's own
  std::string key_sizes = "8";
  std::string value_sizes = "8";
  std::string distribution = "auto";
  std::string skews = "0.99";
  std::uint32_t rounds = 5;
  std::uint64_t seed = 1;
  bool json = false;
  std::uint64_t table_mib = 0;
  std::uint64_t requests_of_head = 128;
  /// What is measured is tables of chained slabs.
  bool slabs = false;

  static HashFlags of_slabs();
  void add_to(console::App* app);

 private:
  void add_shapes_to(console::App* app);
};

/// What a table is made of.
struct Shape {
  std::uint32_t load_percent;
  int lanes;
  std::uint32_t key_bytes;           // other than 8: keys and values lie in rows
  std::uint32_t value_bytes;         // the same for values
  hash::shapes::Shape buckets = {};  // of tables of that sort
};

/// How keys are chosen that requests have.
struct Choice {
  std::string distribution;
  double skew;  // Zipf's theta, if it is that
};

/// Runs what the flags ask for and prints a row for each figure. Returns an ExitCode.
int run_hash(const HashFlags& flags);

}  // namespace breccia::bench::tables
