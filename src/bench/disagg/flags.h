#pragma once

#include <cstdint>
#include <string>

#include "console/network_flags.h"

namespace breccia::bench::disagg {

/// What `breccia bench disagg` is asked for. Lists are words with commas between them.
struct DisaggFlags {
  console::NetworkFlags network;
  std::uint64_t keys = 80'000;
  std::string value_sizes = "256";
  std::string clients = "1";
  std::string indexes = "both";
  std::string workloads = "basic,batches,rebuild,rebuild_reads";
  std::uint32_t memory_servers = 2;
  std::uint32_t shards = 1;
  std::string keep;  // a folder for memory servers' files; empty: they keep nothing
  double seconds = 1;
  std::uint64_t requests = 200'000;  // of each client in a workload of YCSB
  std::uint32_t rounds = 5;
  std::uint64_t seed = 1;
  bool json = false;
  bool progress = false;
};

/// Runs what the flags ask for and prints a row for each figure. Returns an ExitCode.
int run_disagg(const DisaggFlags& flags);

}  // namespace breccia::bench::disagg
