#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "bench/disagg/flags.h"
#include "console/exit_codes.h"

namespace breccia::bench::disagg {
namespace {

// Goal: each figure is of what its name says: a lookup is two reads and none of the hash server's
//   work, one where the value was, and a range some more than its keys.
// Method: a short run of two clients.
// Mutation: a client that remembers nothing, or both of them.
TEST(DisaggBench, CountsReads) {
  DisaggFlags flags;
  flags.keys = 3000;
  flags.clients = "2";
  flags.seconds = 0.1;
  flags.rounds = 1;
  flags.json = true;
  ::testing::internal::CaptureStdout();
  const int code = run_disagg(flags);
  std::istringstream lines(::testing::internal::GetCapturedStdout());
  ASSERT_EQ(code, console::kExitOk);
  std::map<std::string, nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    rows[row["benchmark"]] = row;
    EXPECT_TRUE(!row.contains("operations") || row["operations"] > 0);
  }
  const auto reads_of = [&](const char* name) {
    return rows.at(name)["reads_per_op"].get<double>();
  };
  EXPECT_EQ(reads_of("fabric_read64"), 1);
  EXPECT_GE(reads_of("fabric_get"), 2);
  EXPECT_LT(reads_of("fabric_get"), 2.3);
  EXPECT_GE(reads_of("fabric_get_cached"), 1);
  EXPECT_LT(reads_of("fabric_get_cached"), 1.4);  // some keys share a place
  EXPECT_GE(reads_of("fabric_miss"), 2);
  EXPECT_GT(reads_of("fabric_scan100"), 50);
  const auto cpu_of = [&](const char* name) {
    return rows.at(name)["hash_server_cpu_us_per_op"].get<double>();
  };
  EXPECT_LT(cpu_of("fabric_get"), cpu_of("fabric_put") / 4);
  for (const char* const name : {"fabric_rebuild_hash", "fabric_rebuild_ordered"}) {
    EXPECT_GT(rows.at(name)["keys_per_sec"], 0);
    EXPECT_GT(rows.at(name)["writes"], 0);
  }
}

TEST(DisaggBench, SaysWhatIsWrong) {
  DisaggFlags flags;
  flags.value_sizes = "8";
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
  flags = DisaggFlags();
  flags.clients = "0";
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
  flags = DisaggFlags();
  flags.seconds = 0;
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
}

}  // namespace
}  // namespace breccia::bench::disagg
