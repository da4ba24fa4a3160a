#include <breccia/disagg_options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/db_bench.h"
#include "console/exit_codes.h"
#include "support/folder.h"
#include "support/local_cluster.h"

namespace breccia::bench {
namespace {

/// A cluster, and benchmarks on it.
class DisaggEngineBench : public ::testing::Test {
 protected:
  /// The exit code; what the steps gave in *results.
  int run(DbBenchFlags flags, std::vector<StepResult>* results) const {
    flags.num = 500;
    flags.suite.threads = 2;
    flags.suite.verify = true;
    if (flags.suite.engine == "disagg" || !flags.suite.compare.empty()) {
      flags.suite.cluster = cluster_.file();
    }
    SuiteConfig suite;
    EXPECT_EQ(flags.suite.fill(&suite), "");
    suite.place = {folder_ / "db", ""};
    suite.rocksdb_best = false;
    results->clear();
    return run_suite(suite, db_bench_steps(flags).value(),
                     [&](const Step&, const StepResult& result, const DriverOutcome&) {
                       results->push_back(result);
                     });
  }
  [[nodiscard]] std::unique_ptr<Store> open() const {
    DisaggOptions options;
    options.config = cluster_.file();
    std::unique_ptr<Store> store;
    EXPECT_TRUE(Store::Open(options, &store).ok());
    return store;
  }

 private:
  const breccia::testing::LocalCluster cluster_{10'000};
  const breccia::testing::Folder folder_{breccia::testing::Place::kDisk};
};

// Goal: a cluster finds what RocksDB finds, also beside it in turns: what a run leaves is deleted
//   before the next one.
// Method: the same benchmarks, of singles and of batches, on both, two rounds of each.
// Mutation: keys that stay behind a round.
TEST_F(DisaggEngineBench, FindsWhatRocksdbFinds) {
  for (const std::uint32_t batch_size : {1U, 100U}) {
    DbBenchFlags flags;
    flags.benchmarks = {"fillrandom", "overwrite", "deleterandom", "readrandom", "seekrandom"};
    flags.seek_nexts = 10;
    flags.suite.compare = {"disagg", "rocksdb"};
    flags.suite.rounds = 2;
    flags.suite.batch_size = batch_size;
    std::vector<StepResult> results;
    ASSERT_EQ(run(flags, &results), console::kExitOk);  // also that results agree
    EXPECT_EQ(results.size(), 20U);
    for (const StepResult& one : results) EXPECT_TRUE(one.hashed) << one.step;
    std::string value;
    Batch all = open()->NewBatch();
    ASSERT_TRUE(all.Range("", "\xff", 1).ok());
    ASSERT_TRUE(open()->Submit({}, &all).ok());
    EXPECT_EQ(all.range_size(0), 0U);
  }
}

// Goal: what a cluster does not do ends the benchmark; what is there before is neither measured
//   nor deleted, unless that is wanted.
// Method: merges and transactions; a key that is nobody's.
// Mutation: a cluster that is taken as it is.
TEST_F(DisaggEngineBench, SaysWhatItDoesNotDo) {
  DbBenchFlags flags;
  flags.suite.engine = "disagg";
  flags.value_size = 8;
  std::vector<StepResult> results;
  for (const char* const benchmark : {"mergerandom", "transactionrandom", "validatedrandom"}) {
    flags.benchmarks = {benchmark};
    EXPECT_EQ(run(flags, &results), console::kExitFailed) << benchmark;
    EXPECT_TRUE(results.empty()) << benchmark;
  }
  const auto store = open();
  ASSERT_TRUE(store->Put({}, "somebody's", "value").ok());
  flags.benchmarks = {"readrandom"};
  EXPECT_EQ(run(flags, &results), console::kExitFailed);
  flags.suite.use_existing_db = true;
  EXPECT_EQ(run(flags, &results), console::kExitOk);
  std::string value;
  EXPECT_TRUE(store->Get("somebody's", &value).ok());
}

TEST(DisaggEngineFlags, NeedACluster) {
  SuiteConfig suite;
  SuiteFlags flags;
  flags.engine = "disagg";
  EXPECT_NE(flags.fill(&suite), "");
  flags.cluster = "cluster.json";
  EXPECT_EQ(flags.fill(&suite), "");
  flags.engine = "breccia";
  EXPECT_NE(flags.fill(&suite), "");
  flags.compare = {"rocksdb", "disagg"};
  EXPECT_EQ(flags.fill(&suite), "");
}

}  // namespace
}  // namespace breccia::bench
