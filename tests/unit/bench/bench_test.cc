#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/db_bench.h"
#include "bench/places.h"
#include "bench/report.h"
#include "bench/ycsb.h"
#include "console/rocksdb_assertions.h"

namespace breccia::bench {
namespace {

namespace fs = std::filesystem;

class BenchTest : public ::testing::Test {
 protected:
  BenchTest() {
    std::string name = (fs::temp_directory_path() / "breccia-bench-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~BenchTest() override { fs::remove_all(folder_); }

  SuiteConfig config(const SuiteFlags& flags) const {
    SuiteConfig suite;
    EXPECT_EQ(flags.fill(&suite), "");
    suite.place = {(folder_ / "db").string(), ""};
    suite.engine.engine = "rocksdb";
    suite.engine.memtable_bytes = 6 << 20;
    suite.engine.cache_bytes = 1 << 20;
    suite.engine.compression = "none";
    return suite;
  }

  // What the steps gave, in order; the exit code must be 0.
  std::vector<StepResult> run(const SuiteFlags& flags, const std::vector<Step>& steps,
                              const std::string& engine = "rocksdb") const {
    std::vector<StepResult> results;
    SuiteConfig suite = config(flags);
    suite.engine.engine = engine;
    EXPECT_EQ(run_suite(suite, steps,
                        [&](const Step&, const StepResult& result, const DriverOutcome& outcome) {
                          EXPECT_EQ(outcome.requests, result.requests);
                          results.push_back(result);
                        }),
              0);
    return results;
  }

  fs::path folder_;
};

// Goal: keys are db_bench's, values a function of key and generation alone.
// Method: bytes written out.
// Mutation: little-endian digits, or a padding of zero bytes, fails.
TEST_F(BenchTest, KeysAndValues) {
  char key[16];
  write_key(0x0102, 16, key);
  EXPECT_EQ(std::string(key, 16), std::string("\0\0\0\0\0\0\1\2", 8) + "00000000");
  write_key(0x0102, 3, key);
  EXPECT_EQ(std::string(key, 3), std::string("\0\1\2", 3));
  const ValueSource values(100);
  EXPECT_EQ(values.at(5, 1), values.at(5, 1));
  EXPECT_NE(values.at(5, 1), values.at(5, 2));
  EXPECT_NE(values.at(5, 1), values.at(6, 1));
  EXPECT_EQ(ValueSource(0).at(1, 1).size(), 0U);
}

// Goal: the fingerprint ignores order and sees every part of a result.
// Method: the same results in two orders, then one part changed at a time.
// Mutation: leaving the code out of the sum fails.
TEST_F(BenchTest, HashIgnoresOrderOnly) {
  const auto digest = [](std::uint64_t id, Status::Code code, const char* value, bool turned) {
    ResultHash hash;
    if (!turned) hash.add(1, Status::kOk, "x");
    hash.add(id, code, value);
    if (turned) hash.add(1, Status::kOk, "x");
    return hash.digest();
  };
  const auto one = digest(2, Status::kOk, "y", false);
  EXPECT_EQ(one, digest(2, Status::kOk, "y", true));
  EXPECT_NE(one, digest(3, Status::kOk, "y", false));
  EXPECT_NE(one, digest(2, Status::kNotFound, "y", false));
  EXPECT_NE(one, digest(2, Status::kOk, "z", false));
}

// Goal: singles, batches and prebuilt batches ask for the same and get the same.
// Method: the same benchmarks three ways on RocksDB; sizes beside the chunk's.
// Mutation: a chunk that starts again at its first request fails.
TEST_F(BenchTest, WaysOfRunningAgree) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillrandom", "overwrite", "deleterandom", "flush", "readrandom"};
  flags.num = 1000;
  flags.suite.threads = 2;
  flags.suite.verify = true;
  std::vector<StepResult> singles = run(flags.suite, db_bench_steps(flags).value());
  ASSERT_EQ(singles.size(), 4U);
  EXPECT_EQ(singles[3].requests, 2000U);
  EXPECT_EQ(singles[3].reads_sampled, 2000U);
  EXPECT_GT(singles[3].reads_found, 0U);
  EXPECT_LT(singles[3].reads_found, 2000U);
  for (const std::uint32_t batch_size : {2U, 255U, 256U, 257U, 5000U}) {
    for (const bool prebuilt : {false, true}) {
      flags.suite.batch_size = batch_size;
      flags.suite.prebuilt = prebuilt;
      const auto batches = run(flags.suite, db_bench_steps(flags).value());
      for (std::size_t i = 0; i < singles.size(); ++i) {
        EXPECT_TRUE(batches[i].hashed);
        EXPECT_EQ(batches[i].hash, singles[i].hash) << batches[i].step << " " << batch_size;
      }
    }
  }
}

// Goal: transactions of any size, of Breccia and of RocksDB, read and leave the same.
// Method: transactions of 1 to 5,000 requests by three threads on an empty database, a flush, and
//         once more; both engines. Lookups find nothing, a value of before or the transaction's
//         own.
// Mutation: lookups that do not see the writes before them, see those behind them, or are not
//           among the sampled fail.
TEST_F(BenchTest, TransactionsAgree) {
  DbBenchFlags flags;
  flags.benchmarks = {"transactionrandom", "flush", "transactionrandom"};
  flags.num = 1000;
  flags.value_size = 8;
  flags.suite.threads = 3;
  std::vector<StepResult> first;
  for (const bool verify : {true, false}) {
    flags.suite.verify = verify;
    first.clear();
    for (const std::uint32_t batch_size : {1U, 257U, 5000U}) {
      flags.suite.batch_size = batch_size;
      for (const std::string engine : {"rocksdb", "breccia"}) {
        const auto results = run(flags.suite, db_bench_steps(flags).value(), engine);
        ASSERT_EQ(results.size(), 2U);
        if (first.empty()) first = results;
        EXPECT_LT(results[0].reads_found, results[0].reads_sampled);
        for (std::size_t i = 0; i < results.size(); ++i) {
          EXPECT_TRUE(results[i].hashed);
          EXPECT_EQ(results[i].requests, 3000U);
          EXPECT_EQ(results[i].reads_sampled, verify ? 1500U : 48U);
          EXPECT_GT(results[i].reads_found, 0U);
          EXPECT_EQ(results[i].hash, first[i].hash) << engine << " " << batch_size;
        }
      }
    }
  }
}

// Goal: transactions whose lookups are of before, of Breccia and of RocksDB, read and leave the
//          same.
// Method: as above, engine against engine: what lies in one transaction depends on its size. Two
//          requests in one show that lookups do not see the transaction's own writes.
// Mutation: lookups in batch(), or RocksDB's among its puts, differ in the larger sizes.
TEST_F(BenchTest, ValidatedTransactionsAgree) {
  DbBenchFlags flags;
  flags.benchmarks = {"validatedrandom", "flush", "validatedrandom", "transactionrandom"};
  flags.num = 1000;
  flags.value_size = 8;
  flags.suite.threads = 3;
  flags.suite.verify = true;
  for (const std::uint32_t batch_size : {1U, 2U, 257U, 5000U}) {
    flags.suite.batch_size = batch_size;
    const auto steps = db_bench_steps(flags).value();
    const auto expected = run(flags.suite, steps, "rocksdb");
    const auto found = run(flags.suite, steps, "breccia");
    ASSERT_EQ(expected.size(), 3U);
    ASSERT_EQ(found.size(), 3U);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].hashed);
      EXPECT_EQ(found[i].requests, 3000U);
      EXPECT_EQ(found[i].reads_sampled, 1500U);
      EXPECT_EQ(found[i].hash, expected[i].hash) << found[i].step << " " << batch_size;
    }
    // One transaction a thread, on an empty database: there is nothing yet.
    EXPECT_EQ(found[0].reads_found == 0, batch_size == 5000U);
    EXPECT_GT(found[1].reads_found, 0U);
  }
}

// Goal: YCSB's steps give the same in singles and batches, and find every record they look up.
// Method: each kind of request with the latest distribution, two threads.
// Mutation: a read-modify-write that reads after its batch's inserts of other threads still
//           agrees; one that looks up a record before it is inserted does not.
TEST_F(BenchTest, YcsbWaysAgree) {
  YcsbWorkload workload;
  workload.record_count = 500;
  workload.operation_count = 3000;
  workload.read = workload.update = workload.insert = workload.read_modify_write = 0.25;
  workload.distribution = Distribution::kLatest;
  SuiteFlags flags;
  flags.threads = 2;
  flags.verify = true;
  const auto singles = run(flags, ycsb_steps(flags, workload, "w", 0));
  flags.batch_size = 100;
  const auto batches = run(flags, ycsb_steps(flags, workload, "w", 0));
  ASSERT_EQ(singles.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(singles[i].hash, batches[i].hash);
  EXPECT_EQ(batches[1].requests, 3000U);
  EXPECT_GT(batches[1].reads_sampled, 1000U);
  EXPECT_EQ(batches[1].reads_found, batches[1].reads_sampled);
}

// Goal: time and rate limits hold, and a run by time is not compared.
// Method: a fifth of a second; a rate that needs as long.
// Mutation: a pace per thread in place of all threads takes twice as long.
TEST_F(BenchTest, TimeAndRate) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillrandom", "readwhilewriting"};
  flags.num = 1000;
  flags.duration = 0.2;
  const auto timed = run(flags.suite, db_bench_steps(flags).value());
  for (const StepResult& result : timed) {
    EXPECT_GE(result.seconds, 0.2);
    EXPECT_FALSE(result.hashed);
  }
  YcsbWorkload workload;
  workload.record_count = 10;
  workload.operation_count = 200;
  SuiteFlags paced;
  paced.threads = 2;
  const auto results = run(paced, ycsb_steps(paced, workload, "w", 1000));
  EXPECT_GE(results[1].seconds, 0.19);
  EXPECT_LT(results[1].seconds, 2);
}

// Goal: flags that do not go together, and names that are none, are refused.
// Method: one example each.
// Mutation: leaving out a check accepts its example.
TEST_F(BenchTest, RefusesWrongFlags) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillrandom", "nonsense"};
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  flags.benchmarks = {"fillrandom"};
  flags.key_size = 1;
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  flags = DbBenchFlags();
  flags.benchmarks = {"transactionrandom"};
  flags.suite.threads = 5;
  flags.num = 5;
  EXPECT_TRUE(db_bench_steps(flags).ok());
  flags.num = 4;
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  flags.num = 5;
  flags.suite.prebuilt = true;
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  SuiteFlags both;
  both.sync = both.disable_wal = true;
  SuiteConfig suite;
  EXPECT_NE(both.fill(&suite), "");
}

// Goal: no folder is removed that a benchmark did not make.
// Method: a folder with a file of somebody else; then one of our own.
// Mutation: removing without looking for the mark deletes the file.
TEST_F(BenchTest, RemovesItsOwnFoldersOnly) {
  const fs::path precious = folder_ / "db" / "precious";
  fs::create_directories(precious.parent_path());
  std::ofstream(precious) << "x";
  const Place place{precious.parent_path().string(), ""};
  EXPECT_TRUE(make_fresh(place).IsInvalidArgument());
  EXPECT_TRUE(remove_marked(place).IsInvalidArgument());
  EXPECT_TRUE(fs::exists(precious));
  const Place own = nested({folder_.string(), ""}, "own");
  ASSERT_TRUE(make_fresh(own).ok());
  std::ofstream(fs::path(own.db) / "old") << "x";
  ASSERT_TRUE(make_fresh(own).ok());
  EXPECT_FALSE(fs::exists(fs::path(own.db) / "old"));
  ASSERT_TRUE(remove_marked(own).ok());
  EXPECT_FALSE(fs::exists(own.db));
}

// Goal: different results of one step are found, whoever gave them; uncompared ones are not.
// Method: results made up.
// Mutation: comparing with the last result in place of the first misses none here, but comparing
//           across steps fails.
TEST_F(BenchTest, FindsMismatches) {
  StepResult result;
  result.step = "a";
  result.hashed = true;
  result.hash = 1;
  std::vector<StepResult> results = {result, result};
  EXPECT_TRUE(mismatches(results).empty());
  result.step = "b";
  result.hash = 2;
  results.push_back(result);
  EXPECT_TRUE(mismatches(results).empty());
  result.hash = 3;
  result.hashed = false;
  results.push_back(result);
  EXPECT_TRUE(mismatches(results).empty());
  result.hashed = true;
  results.push_back(result);
  EXPECT_EQ(mismatches(results), std::vector<std::string>{"b"});
}

// Goal: medians and ends are right for odd and even counts.
// Method: by hand.
// Mutation: taking the upper middle of an even count fails.
TEST_F(BenchTest, Spreads) {
  EXPECT_EQ(spread_of({3, 1, 2}).median, 2);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(spread_of({4, 1}).least, 1);
  EXPECT_EQ(spread_of({4, 1}).greatest, 4);
}

// Goal: the library's build is recognized, and only assertions are warned of.
// Method: the library of this process; made-up answers for the words.
// Mutation: looking at exported symbols in place of imported ones finds no assertions anywhere.
TEST_F(BenchTest, RocksdbBuildIsKnown) {
  const console::RocksdbBuild build = console::rocksdb_build();
  EXPECT_NE(build.library.find("librocksdb"), std::string::npos);
  EXPECT_NE(build.assertions, console::Assertions::kUnknown);
  EXPECT_EQ(console::assertions_warning({console::Assertions::kOff, "x"}), "");
  EXPECT_NE(console::assertions_warning({console::Assertions::kOn, "x"}), "");
}

}  // namespace
}  // namespace breccia::bench
