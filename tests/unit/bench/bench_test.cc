#include <gtest/gtest.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "bench/database.h"
#include "bench/db_bench.h"
#include "bench/places.h"
#include "bench/report.h"
#include "bench/rows.h"
#include "bench/ycsb/ycsb.h"
#include "console/exit_codes.h"
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

// Goal: singles, batches and prebuilt batches, of requests that are made before the clock or within
//       it, ask for the same and get the same.
// Method: the same benchmarks on RocksDB; sizes beside the chunk's.
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
  for (const std::uint32_t batch_size : {1U, 2U, 255U, 256U, 257U, 5000U}) {
    for (const bool prebuilt : {false, true}) {
      for (const bool ready : {false, true}) {
        flags.suite.batch_size = batch_size;
        flags.suite.prebuilt = prebuilt && batch_size > 1;
        flags.suite.ready = ready;
        const auto others = run(flags.suite, db_bench_steps(flags).value());
        for (std::size_t i = 0; i < singles.size(); ++i) {
          EXPECT_TRUE(others[i].hashed);
          EXPECT_EQ(others[i].hash, singles[i].hash) << others[i].step << " " << batch_size;
        }
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
          EXPECT_EQ(results[i].reads_sampled, verify ? 1500U : first[i].reads_sampled);
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

// Goal: every key set, with skew and misses, is filled by several threads, and both engines find in
//       every state what the generator says.
// Method: each set on both engines, state after state; all results looked at.
// Mutation: a part of the set that no thread fills, or a state that loses writes, fails.
TEST_F(BenchTest, KeySetsAndStatesAgree) {
  constexpr std::array kSets = {"seq", "uniform", "ycsb", "prefixed", "urls"};
  constexpr std::array kStates = {"memtable", "clean", "tree-warm", "tree-cold", "memtable"};
  for (std::size_t i = 0; i < kSets.size(); ++i) {
    DbBenchFlags flags;
    flags.benchmarks = {i % 2 == 0 ? "filluniquerandom" : "fillseq", "readrandom",
                        "multireadrandom", "overwrite", "readrandom"};
    flags.num = 1000;
    flags.keys.keys = 2000;
    flags.keys.key_set = kSets[i];
    flags.keys.skew = i % 2 == 0 ? 0.9 : 0;
    flags.keys.misses = 0.25;
    flags.suite.threads = 3;
    flags.suite.batch_size = 100;
    flags.suite.verify = true;
    flags.suite.state = kStates[i];
    const auto steps = db_bench_steps(flags);
    ASSERT_TRUE(steps.ok());
    const auto expected = run(flags.suite, steps.value(), "rocksdb");
    const auto found = run(flags.suite, steps.value(), "breccia");
    ASSERT_EQ(found.size(), 5U);
    EXPECT_EQ(found[0].requests, 2001U);
    EXPECT_NEAR(static_cast<double>(found[1].reads_found), 2250, 150);
    for (std::size_t step = 0; step < found.size(); ++step) {
      EXPECT_TRUE(found[step].hashed);
      EXPECT_EQ(found[step].hash, expected[step].hash) << kSets[i] << " " << found[step].step;
    }
  }
}

// Goal: however RocksDB is used, results are the same.
// Method: writes, merges, lookups and mixed groups in each way, against the plain one, by threads
//         that meet on keys.
// Mutation: additions without locks, a WriteBatch that is left out, or sorted lookups that are
//           given other requests' numbers, fail.
TEST_F(BenchTest, RocksdbTuningsAgree) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillrandom", "mergerandom", "readrandom", "flush", "readrandom"};
  flags.num = 3000;
  flags.keys.keys = 500;
  flags.value_size = 8;
  flags.suite.threads = 3;
  flags.suite.batch_size = 1000;
  flags.suite.verify = true;
  const auto steps = db_bench_steps(flags).value();
  const auto expected = run(flags.suite, steps);
  std::vector<RocksdbTuning> tunings(5);
  tunings[0].write_batch = 100;
  tunings[1].writers = Writers::kUnordered;
  tunings[1].write_batch = 999;
  tunings[2].writers = Writers::kOneQueue;
  tunings[2].merge_by_reading = true;
  tunings[3].sorted = tunings[3].async_io = tunings[3].hash_index = true;
  tunings[3].multi_get = 4096;
  tunings[4].multi_get = 32;
  for (const RocksdbTuning& tuning : tunings) {
    SuiteConfig suite = config(flags.suite);
    suite.engine.rocksdb = tuning;
    std::vector<StepResult> found;
    EXPECT_EQ(run_suite(suite, steps,
                        [&](const Step&, const StepResult& result, const DriverOutcome&) {
                          found.push_back(result);
                        }),
              console::kExitOk);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].hash, expected[i].hash) << found[i].step << ": " << tuning.words();
      EXPECT_EQ(found[i].settings, tuning.words());
    }
  }
}

// Goal: batches that are filled from columns ask for the same and get the same, and rows say so.
// Method: writes, merges, deletions, lookups with misses and scans, of keys of one size and of
//         many, with values of no bytes and of some, against RocksDB; YCSB's mixes. Arrays that
//         are made within the clock, or before it.
// Mutation: values that lie a byte off, a column that is left out or starts again at its first
//           string, keys of many sizes taken as of one, or a sample that counts the requests of
//           another kind, fail.
TEST_F(BenchTest, ColumnsAgree) {
  const auto agree = [&](const SuiteFlags& flags, std::uint32_t value_size,
                         const std::vector<Step>& steps) {
    const auto expected = run(flags, steps);
    SuiteConfig suite = config(flags);
    suite.engine.engine = "breccia";
    suite.engine.columns = true;
    suite.data.value_size = value_size;
    std::vector<StepResult> found;
    EXPECT_EQ(run_suite(suite, steps,
                        [&](const Step&, const StepResult& result, const DriverOutcome&) {
                          found.push_back(result);
                        }),
              console::kExitOk);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].hash, expected[i].hash) << found[i].step;
      EXPECT_TRUE(found[i].in_effect.columns);
      EXPECT_FALSE(expected[i].in_effect.columns);
    }
  };
  for (const char* const key_set : {"uniform", "urls"}) {
    for (const std::uint32_t value_size : {0U, 8U, 100U}) {
      DbBenchFlags flags;
      flags.benchmarks = {"fillrandom", "deleterandom", "readrandom", "seekrandom",
                          "readrandom@clean"};
      if (value_size == 8) flags.benchmarks.emplace_back("mergerandom");
      flags.num = 1000;
      flags.keys.key_set = key_set;
      flags.keys.misses = 0.2;
      flags.seek_nexts = 7;
      flags.value_size = value_size;
      flags.suite.threads = 2;
      flags.suite.verify = true;
      flags.suite.batch_size = 300;
      for (const bool ready : {false, true}) {
        flags.suite.ready = ready;
        agree(flags.suite, value_size, db_bench_steps(flags).value());
      }
    }
  }
  YcsbWorkload workload;
  workload.record_count = 500;
  workload.operation_count = 3000;
  workload.read = workload.update = workload.read_modify_write = workload.scan = 0.25;
  workload.scan_length_max = 9;
  workload.field_length = 3;
  SuiteFlags flags;
  flags.threads = 2;
  flags.verify = true;
  flags.batch_size = 100;
  YcsbWorkload inserts = workload;
  inserts.update = inserts.scan = 0;
  inserts.insert = 0.25;
  agree(flags, 30, ycsb_steps(flags, {{"w", workload}, {"inserts", inserts}}, 0));
}

// Goal: transactions of RocksDB and what stands for them, a snapshot and a WriteBatch, read and
//       leave the same, and a probe chooses among them.
// Method: both kinds of lookups, in each way; then a comparison.
// Mutation: lookups that do not see the writes before them, or see those behind the snapshot, fail.
TEST_F(BenchTest, TransactingsAgree) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillseq", "transactionrandom", "validatedrandom", "readrandom"};
  flags.num = 1000;
  flags.value_size = 8;
  flags.suite.threads = 2;
  flags.suite.batch_size = 500;
  flags.suite.verify = true;
  const auto steps = db_bench_steps(flags).value();
  const auto expected = run(flags.suite, steps);
  SuiteConfig suite = config(flags.suite);
  suite.engine.rocksdb.transacting = Transacting::kSnapshot;
  suite.engine.rocksdb.sorted = true;
  std::vector<StepResult> found;
  const auto keep = [&](const Step&, const StepResult& result, const DriverOutcome&) {
    found.push_back(result);
  };
  EXPECT_EQ(run_suite(suite, steps, keep), console::kExitOk);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].hash, expected[i].hash) << found[i].step;
    EXPECT_NE(found[i].settings.find("not validated"), std::string::npos);
  }
  flags.suite.compare = {"breccia", "rocksdb"};
  flags.suite.rounds = 1;
  found.clear();
  EXPECT_EQ(run_suite(config(flags.suite), steps, keep), console::kExitOk);
  EXPECT_EQ(found.size(), 8U);
  EXPECT_FALSE(fs::exists(folder_ / "db" / "probe"));
}

// Goal: every way of loading leaves the same, in files.
// Method: a load by three threads in each way, with keys that are written twice at the parts' ends.
// Mutation: a file without its last entry, or a load whose memtables are given up, fails.
TEST_F(BenchTest, LoadingsAgree) {
  DbBenchFlags flags;
  flags.benchmarks = {"bulkload", "readrandom"};
  flags.num = 1000;
  flags.suite.threads = 3;
  flags.suite.batch_size = 200;
  flags.suite.verify = true;
  const auto steps = db_bench_steps(flags).value();
  const auto expected = run(flags.suite, steps, "breccia");
  for (const Loading loading : {Loading::kWrites, Loading::kVector, Loading::kFiles}) {
    EngineConfig engine = config(flags.suite).engine;
    engine.rocksdb.loading = loading;
    const Place place{(folder_ / "load").string(), ""};
    ASSERT_TRUE(make_fresh(place).ok());
    Database database(engine, place);
    ASSERT_TRUE(database.open().ok());
    DriverOutcome outcome;
    drive(database.engine(), steps[0].driver, steps[0].streams, {}, &outcome);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    ASSERT_TRUE(flush_timed(database.engine(), steps[0].driver, &outcome).ok());
    ASSERT_TRUE(database.open_for({}).ok());
    DriverOutcome found;
    drive(database.engine(), steps[1].driver, steps[1].streams, {}, &found);
    EXPECT_EQ(found.findings.hash.found(), 3000U);
    EXPECT_EQ(found.findings.wrong, 0U);
  }
  EXPECT_EQ(expected[1].reads_found, 3000U);
}

// Goal: a comparison in which a probe chooses ends well, and says what it chose.
// Method: both engines, a state that lookups of the probe would warm, merges.
// Mutation: a probe that leaves its database behind, or runs lookups before there are any, fails.
TEST_F(BenchTest, ProbeChooses) {
  DbBenchFlags flags;
  flags.benchmarks = {"bulkload", "mergerandom", "readrandom@tree-cold", "seekrandom"};
  flags.num = 2000;
  flags.value_size = 8;
  flags.suite.batch_size = 1000;
  flags.suite.compare = {"breccia", "rocksdb"};
  flags.suite.rounds = 2;
  const auto steps = db_bench_steps(flags).value();
  const SuiteConfig suite = config(flags.suite);
  EXPECT_TRUE(suite.rocksdb_best);
  std::vector<StepResult> found;
  EXPECT_EQ(run_suite(suite, steps,
                      [&](const Step&, const StepResult& result, const DriverOutcome&) {
                        found.push_back(result);
                      }),
            console::kExitOk);
  ASSERT_EQ(found.size(), 16U);
  for (const StepResult& result : found) {
    EXPECT_EQ(result.settings.empty(), result.engine == "breccia");
    if (result.engine == "breccia") continue;
    EXPECT_NE(result.settings.find("hash index"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder_ / "db" / "probe"));
}

/// Engines in memory alone beside the first one, one by one and in batches.
class BenchInMemory : public BenchTest {
 protected:
  void expect_alike(const std::vector<std::string>& engines,
                    const std::vector<std::string>& benchmarks) {
    DbBenchFlags flags;
    flags.benchmarks = benchmarks;
    flags.num = 1000;
    flags.keys.key_size = 8;
    flags.keys.key_set = "uniform";
    flags.keys.misses = 0.2;
    flags.keys.skew = 0.9;
    flags.value_size = 8;
    flags.suite.verify = true;
    for (const std::uint32_t batch_size : {1U, 1000U}) {
      flags.suite.batch_size = batch_size;
      const auto steps = db_bench_steps(flags).value();
      const auto expected = run(flags.suite, steps);
      for (const std::string& engine : engines) {
        SuiteConfig suite = config(flags.suite);
        suite.engine.engine = engine;
        suite.data.keys = 1000;
        suite.data.key_size = suite.data.value_size = 8;
        std::vector<StepResult> found;
        EXPECT_EQ(run_suite(suite, steps,
                            [&](const Step&, const StepResult& result, const DriverOutcome&) {
                              found.push_back(result);
                            }),
                  console::kExitOk);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].hash, expected[i].hash)
              << engine << " " << found[i].step << " " << batch_size;
        }
      }
    }
  }
};

// Goal: the hash table in memory answers as the others do, if it is in this build.
// Method: fills, updates, merges, deletions and lookups with misses, one by one and in batches.
// Mutation: bulk lookups matched by place in place of key fail.
TEST_F(BenchInMemory, FlatMapAgrees) {
  EngineConfig alone;
  alone.engine = "flatmap";
  alone.key_size = alone.value_size = 8;
  const Status there = open_flat_map(alone).status();
  if (there.IsNotSupported()) GTEST_SKIP() << there.ToString();
  expect_alike({"flatmap"}, {"filluniquerandom", "mergerandom", "readrandom", "deleterandom",
                             "overwrite", "readrandom@tree-cold"});
}

// Goal: so does the slab engine, in both ways.
// Method: the same without merges, which it has not.
// Mutation: a state of the tree for which it is opened again, and is empty.
TEST_F(BenchInMemory, SlabsAgree) {
  expect_alike({"slab", "slab_in_place"}, {"filluniquerandom", "readrandom", "deleterandom",
                                           "overwrite", "readrandom@tree-cold"});
}

// A stream whose generator is wrong about one request.
class Doubting final : public Stream {
 public:
  explicit Doubting(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const override {
    stream_->fill(first, count, chunk);
  }
  [[nodiscard]] std::size_t key_size_max() const override { return stream_->key_size_max(); }
  [[nodiscard]] bool allows(std::uint64_t number, Status::Code code,
                            const Slice& value) const override {
    return number != 777 && stream_->allows(number, code, value);
  }
  [[nodiscard]] bool allows_scan(std::uint64_t number, Status::Code code,
                                 std::uint64_t entries) const override {
    return number != 777 && stream_->allows_scan(number, code, entries);
  }

 private:
  const std::unique_ptr<Stream> stream_;
};

// Goal: one result that no write can have left ends the benchmark with an error.
// Method: lookups and scans one by one and in batches, on both engines; one is said to be wrong.
// Mutation: an audit that is not asked for its findings passes.
TEST_F(BenchTest, WrongResultsAreErrors) {
  DbBenchFlags flags;
  flags.num = 1000;
  flags.seek_nexts = 3;
  flags.suite.verify = true;
  for (const std::uint32_t batch_size : {1U, 100U}) {
    flags.suite.batch_size = batch_size;
    for (const auto& [engine, reads] : {std::pair{"rocksdb", "readrandom"},
                                        {"breccia", "readrandom"},
                                        {"rocksdb", "seekrandom"},
                                        {"breccia", "seekrandom"}}) {
      flags.benchmarks = {"fillseq", reads};
      auto steps = db_bench_steps(flags).take();
      const auto right = steps[1].streams.counted;
      steps[1].streams.counted = [right](std::uint32_t thread) {
        return std::make_unique<Doubting>(right(thread));
      };
      SuiteConfig suite = config(flags.suite);
      suite.engine.engine = engine;
      EXPECT_EQ(run_suite(suite, steps, [](const auto&...) {}), console::kExitFailed);
    }
  }
}

// Goal: the cache drops what it has of SST files.
// Method: files of a megabyte that were just written; what is left is little, where the folder's
//         file system drops anything (tmpfs does not).
//         One that a compaction deletes behind the listing is a link to nothing here.
// Mutation: dropping before the files are synced leaves them whole; a file that is gone is an
//           error (as it was).
TEST_F(BenchTest, CachedTablesAreDropped) {
  std::filesystem::create_symlink(folder_ / "gone", folder_ / "4.sst");
  for (const auto* const name : {"1.sst", "2.sst", "3.log"}) {
    std::ofstream(folder_ / name) << std::string(1 << 20, 'x');
  }
  const auto left = drop_cached_tables(folder_.string());
  ASSERT_TRUE(left.ok());
  struct statfs about {};
  ASSERT_EQ(statfs(folder_.c_str(), &about), 0);
  constexpr auto kTmpfs = 0x01021994;
  if (about.f_type == kTmpfs) GTEST_SKIP() << "tmpfs is its own cache";
  EXPECT_LT(left.value(), 0.1);
  EXPECT_TRUE(drop_cached_tables((folder_ / "none").string()).status().IsIOError());
}

// Goal: rows say what was in effect, and both throughputs.
// Method: a row of a batch benchmark read back; memory above what a store takes; prebuilt or not.
// Mutation: memtable_bytes as it was asked for, or one throughput for both, fails.
TEST_F(BenchTest, RowsSayWhatWasInEffect) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillseq", "readrandom"};
  flags.num = 5000;
  flags.suite.batch_size = 1000;
  for (const bool prebuilt : {false, true}) {
    flags.suite.prebuilt = prebuilt;
    const auto steps = db_bench_steps(flags).value();
    SuiteConfig suite = config(flags.suite);
    suite.engine.engine = "breccia";
    suite.engine.memtable_bytes = 1ULL << 62;
    suite.engine.log_segment_bytes = 1;
    suite.data.keys = 5000;
    std::vector<nlohmann::json> rows;
    ASSERT_EQ(run_suite(suite, steps,
                        [&](const Step& step, const StepResult& result, const DriverOutcome&) {
                          rows.push_back(nlohmann::json::parse(to_json(suite, step, result)));
                        }),
              console::kExitOk);
    ASSERT_EQ(rows.size(), 2U);
    for (const nlohmann::json& row : rows) {
      EXPECT_LT(row["memtable_bytes"], row["memtable_bytes_asked"]);
      EXPECT_GT(row["memtable_bytes"], 0);
      EXPECT_EQ(row["log_segment_bytes"], 64U << 20);
      EXPECT_EQ(row["filling_included"], !prebuilt);
      EXPECT_LT(row["ops_per_sec_filling_included"], row["ops_per_sec_store_alone"]);
      EXPECT_EQ(row[prebuilt ? "ops_per_sec_store_alone" : "ops_per_sec_filling_included"],
                row["ops_per_sec"]);
      EXPECT_EQ(row["keys"], 5000);
      EXPECT_EQ(row["columns"], false);
    }
    EXPECT_TRUE(rows[0]["state"].is_null());
    EXPECT_EQ(rows[1]["state"], "memtable");
  }
}

// Goal: the machine's limits are measured.
// Method: a run, which ends; each figure is there.
// Mutation: a pass that does not stop does not end.
TEST_F(BenchTest, MachineIsMeasured) {
  EngineConfig engine;
  engine.backend = BackendChoice::kHost;
  const auto limits = measure_machine((folder_ / "not" / "there").string(), engine);
  ASSERT_TRUE(limits.ok()) << limits.status().ToString();
  const auto row = nlohmann::json::parse(to_json(limits.value()));
  for (const auto* const name :
       {"copy_bytes_per_s", "gather_128_byte_rows_per_s", "gather_100_of_128_bytes_per_s",
        "random_8_byte_reads_per_s", "disk_write_bytes_per_s"}) {
    EXPECT_GT(row[name], 0) << name;
  }
  EXPECT_FALSE(row.contains("bus_in_bytes_per_s"));
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
  const auto singles = run(flags, ycsb_steps(flags, {{"w", workload}}, 0));
  flags.batch_size = 100;
  const auto batches = run(flags, ycsb_steps(flags, {{"w", workload}}, 0));
  ASSERT_EQ(singles.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(singles[i].hash, batches[i].hash);
  EXPECT_EQ(batches[1].requests, 3000U);
  EXPECT_GT(batches[1].reads_sampled, 1000U);
  EXPECT_EQ(batches[1].reads_found, batches[1].reads_sampled);
}

// Goal: scans beside inserts run in both engines, and are not compared.
// Method: YCSB's workload E, one by one and in batches; every scan is looked at.
// Mutation: scans of a batch that all read as much as the first fail in the audit of their lengths.
TEST_F(BenchTest, YcsbScans) {
  YcsbWorkload workload;
  workload.record_count = 500;
  workload.operation_count = 1000;
  workload.read = workload.update = 0;
  workload.insert = 0.05;
  workload.scan = 0.95;
  workload.scan_length_max = 20;
  SuiteFlags flags;
  flags.threads = 2;
  flags.verify = true;
  for (const std::uint32_t batch_size : {1U, 100U}) {
    flags.batch_size = batch_size;
    for (const char* const engine : {"rocksdb", "breccia"}) {
      const auto results = run(flags, ycsb_steps(flags, {{"e", workload}}, 0), engine);
      ASSERT_EQ(results.size(), 2U);
      EXPECT_FALSE(results[1].hashed);
      EXPECT_GT(results[1].reads_sampled, 900U);
      EXPECT_EQ(results[1].reads_found, results[1].reads_sampled);
    }
  }
}

// Goal: time and rate limits hold, and a run by time is not compared.
// Method: a fifth of a second; rates that need as long, of all benchmarks or of one.
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
  const auto results = run(paced, ycsb_steps(paced, {{"w", workload}}, 1000));
  EXPECT_GE(results[1].seconds, 0.19);
  DbBenchFlags one;
  one.benchmarks = {"fillseq", "readrandom@clean:1000"};
  one.num = 200;
  const auto steps = db_bench_steps(one).value();
  EXPECT_EQ(steps[0].driver.target_per_s, 0);
  EXPECT_EQ(steps[1].driver.target_per_s, 1000);
  EXPECT_EQ(steps[1].state, State::kClean);
  EXPECT_GE(run(one.suite, steps)[1].seconds, 0.19);
}

// An engine that stands still once, and otherwise does nothing.
class Stumbling final : public Engine {
 public:
  class One final : public Session {
   public:
    Status put(const Slice&, const Slice&) override {
      if (calls_++ == 20) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return Status();
    }
    Status erase(const Slice&) override { return Status(); }
    Status merge(const Slice&, const Slice&) override { return Status(); }
    Status scan(const Slice&, std::uint32_t, ScanDigest*) override { return Status(); }
    Status get(const Slice&, Slice*) override { return Status(); }
    Status build(const Stream&, std::uint64_t, std::uint32_t, std::size_t) override {
      return Status();
    }
    Status run(std::size_t, Audit*) override { return Status(); }
    Status transact(const Stream&, std::uint64_t, std::uint32_t, Lookups, Audit*,
                    std::uint64_t*) override {
      return Status();
    }
    [[nodiscard]] const KindCounts& counts(std::size_t) const override { return counts_; }

   private:
    KindCounts counts_{};
    int calls_ = 0;
  };
  std::unique_ptr<Session> session(const Sampling&, std::size_t) override {
    return std::make_unique<One>();
  }
  Status flush() override { return Status(); }
  bool compacts() override { return false; }
  InEffect in_effect() override { return {}; }
  std::string backend() override { return "none"; }
};

// Goal: with a rate, requests that wait behind a slow one are late, and their latency says so.
// Method: a thousand requests a second on an engine that stands still for a tenth of one; a
//         hundred requests were due meanwhile.
// Mutation: a latency from when a request begins, not from when it was due, counts one late.
TEST_F(BenchTest, LatencyCountsFromWhenRequestsWereDue) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillseq"};
  flags.num = 300;
  flags.target_rate = 1000;
  const auto steps = db_bench_steps(flags).value();
  Stumbling engine;
  DriverOutcome outcome;
  drive(&engine, steps[0].driver, steps[0].streams, {}, &outcome);
  EXPECT_GE(outcome.seconds, 0.29);
  EXPECT_GE(outcome.latency.percentile(85), 10'000'000U);
  EXPECT_GE(outcome.latency.max(), 95'000'000U);
}

// Goal: flags that do not go together, and names that are none, are refused.
// Method: one example each.
// Mutation: leaving out a check accepts its example.
TEST_F(BenchTest, RefusesWrongFlags) {
  DbBenchFlags flags;
  flags.benchmarks = {"fillrandom", "nonsense"};
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  flags.benchmarks = {"fillrandom"};
  flags.keys.key_size = 1;
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  flags = DbBenchFlags();
  flags.benchmarks = {"readrandom"};
  for (const double wrong : {-0.1, 1.0}) {
    flags.keys.skew = wrong;
    EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  }
  flags.keys.skew = 0.5;
  EXPECT_TRUE(db_bench_steps(flags).ok());
  flags.benchmarks = {"transactionrandom"};
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  for (const char* const wrong : {"readrandom:", "readrandom:0", "readrandom:-1", "readrandom:inf",
                                  "readrandom@clean:5x", "readrandom:5@clean"}) {
    flags.benchmarks = {wrong};
    EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument()) << wrong;
  }
  flags = DbBenchFlags();
  flags.benchmarks = {"transactionrandom"};
  flags.suite.columns = true;
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  flags = DbBenchFlags();
  flags.keys.misses = 1.1;
  EXPECT_TRUE(db_bench_steps(flags).status().IsInvalidArgument());
  flags.keys.misses = 0;
  flags.target_rate = -1;
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
  SuiteFlags columns;
  columns.columns = true;
  EXPECT_NE(columns.fill(&suite), "");
  columns.batch_size = 2;
  EXPECT_EQ(columns.fill(&suite), "");
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
