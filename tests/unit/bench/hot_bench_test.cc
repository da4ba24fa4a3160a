#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/commands.h"
#include "bench/hot/clients.h"
#include "console/app.h"
#include "console/command.h"
#include "console/exit_codes.h"
#include "support/folder.h"

namespace breccia::bench::hot {
namespace {

/// What the command says to these words.
int say(const std::vector<std::string>& words, std::string* said) {
  console::App app("test");
  const console::Command command = add_bench_hot(&app);
  std::vector<std::string> all = {"hot"};
  all.insert(all.end(), words.begin(), words.end());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const bool is_right = !app.parse(all).has_value();
  const int code = is_right ? command.run() : console::kExitUsage;
  *said = ::testing::internal::GetCapturedStdout();
  (void)::testing::internal::GetCapturedStderr();
  return code;
}

// Goal: each combination has its rows, with and without a tier, over both engines and of the map.
// Method: small ones of some milliseconds; a tier whose keys are all there are has hits.
// Mutation: rows of another combination; a tier that is not opened.
TEST(HotBench, Rows) {
  for (const std::string engine : {"ordered", "hash", "slab", "flatmap"}) {
    if (engine == "flatmap" && !has_flat_map()) continue;  // built without boost
    const testing::Folder folder{testing::Place::kMemory};
    std::string said;
    ASSERT_EQ(say({"--engine",
                   engine,
                   "--backend",
                   "host",
                   "--db",
                   folder / "db",
                   "--keys",
                   "500",
                   "--hot_keys",
                   "0,600",
                   "--read_percents",
                   "50,100",
                   "--skew",
                   "0,1.2",
                   "--value_sizes",
                   "8,100",
                   "--seconds",
                   "0.2",
                   "--warm_seconds",
                   "0.2",
                   "--memtable_bytes",
                   "1048576",
                   "--flip_seconds",
                   "0.1",
                   "--batch_threads",
                   engine == "flatmap" ? "0" : "1",
                   "--batch_size",
                   "100",
                   "--rounds",
                   "1",
                   "--json"},
                  &said),
              console::kExitOk);
    std::map<std::string, int> counts;
    std::set<std::string> combinations;
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      ++counts[row["benchmark"]];
      combinations.insert(row["skew"].dump() + row["read_percent"].dump() + row["hot_keys"].dump() +
                          row["value_size"].dump());
      EXPECT_GT(row["ops_per_sec"], row["batched_per_sec"]);
      EXPECT_EQ(row["batched_per_sec"] == 0, engine == "flatmap");
      EXPECT_LE(row["p50_us"], row["p99_us"]);
    }
    EXPECT_EQ(combinations.size(), 16U);
    EXPECT_EQ(counts["cold_get"], 8) << "without hot keys, and where there are more than keys";
    EXPECT_EQ(counts["hot_get"], 8);
    EXPECT_EQ(counts["hot_put"], 8);
    EXPECT_EQ(counts["model_change"], 8);
    EXPECT_EQ(counts["hot_batch"], engine == "flatmap" ? 0 : 16);
  }
}

// Goal: a value of another key, or one of two versions, is told from a right one.
// Method: values of all sizes with one bit changed.
// Mutation: looking at the first word alone.
TEST(HotBench, KnowsWrongValues) {
  for (const std::uint32_t bytes : {8U, 9U, 16U, 100U}) {
    const Data data(1000, bytes, 1);
    std::string value;
    data.fill(data.key(3, 0), 7, &value);
    EXPECT_TRUE(data.is_of(data.key(3, 0), value));
    EXPECT_FALSE(data.is_of(data.key(4, 0), value));
    for (std::size_t i = 2; i < value.size(); ++i) {
      std::string other = value;
      other[i] ^= 1;
      EXPECT_FALSE(data.is_of(data.key(3, 0), other)) << i << " of " << bytes;
    }
    EXPECT_FALSE(data.is_of(data.key(3, 0), value + "x"));
  }
  const Data data(1000, 8, 1);
  std::set<std::uint64_t> keys;
  for (std::uint64_t rank = 0; rank < 1000; ++rank) keys.insert(data.key(rank, 2));
  EXPECT_EQ(keys.size(), 1000U);
}

// Goal: lists that make no sense are refused, and say so.
TEST(HotBench, Usage) {
  std::string said;
  for (const auto& [flag, words] :
       std::vector<std::pair<std::string, std::string>>{{"--value_sizes", "7"},
                                                        {"--skew", "x"},
                                                        {"--read_percents", "101"},
                                                        {"--hot_keys", ""}}) {
    EXPECT_EQ(say({flag, words}, &said), console::kExitUsage) << flag;
  }
  EXPECT_EQ(say({"--engine", "flatmap", "--batch_threads", "1"}, &said), console::kExitUsage);
}

}  // namespace
}  // namespace breccia::bench::hot
