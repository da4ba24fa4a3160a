#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/key_flags.h"
#include "bench/suite_flags.h"

/// db_bench's benchmarks as steps of a suite.
namespace breccia::bench {

struct DbBenchFlags {
  SuiteFlags suite;
  KeyFlags keys;
  std::vector<std::string> benchmarks = {"fillseq", "fillrandom", "overwrite", "readrandom"};
  std::uint64_t num = 1'000'000;
  std::int64_t reads = -1;
  std::uint32_t value_size = 100;
  std::uint32_t seek_nexts = 100;
  double duration = 0;
  double target_rate = 0;

  void add_to(console::App* app);
};

/// The steps that `flags` ask for. As in db_bench, each thread does `num` requests (`reads`
/// lookups, if set) on `num` keys, or on `keys.keys` if they are set.
/// Errors  InvalidArgument: an unknown benchmark, or flags that do not go together.
Result<std::vector<Step>> db_bench_steps(const DbBenchFlags& flags);

}  // namespace breccia::bench
