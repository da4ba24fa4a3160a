#include <gtest/gtest.h>

#include <filesystem>

#include "program.h"

namespace breccia::testing {

namespace {

constexpr char kNotice[] = "breccia: serves";

/// What the reading benchmarks say of the keys that they found.
std::vector<std::string> found_lines(const Ran& ran) {
  return matches(ran.out, "\\([0-9]+ of [0-9]+ found\\)");
}

class PreloadDbBench : public ::testing::Test {
 protected:
  /// Runs db_bench on RocksDB and on breccia, and expects that RocksDB finds the same after both.
  void expect_same(const std::string& flags, bool with_values = true) {
    SCOPED_TRACE(flags);
    const Folder rocksdb(Place::kMemory);
    const Folder breccia(Place::kMemory);
    const Ran theirs = db_bench(Library::kRocksDb, rocksdb, flags, "");
    const Ran ours = db_bench(Library::kBreccia, breccia, flags, "");
    EXPECT_EQ(ours.err.find(kNotice), 0U) << ours.err;
    EXPECT_EQ(found_lines(theirs), found_lines(ours));
    auto wanted = contents(rocksdb);
    auto there = contents(breccia);
    EXPECT_GT(wanted.size(), 0U);
    if (!with_values) {
      wanted = keys_of(std::move(wanted));
      there = keys_of(std::move(there));
    }
    EXPECT_TRUE(wanted == there) << wanted.size() << " entries by RocksDB, " << there.size();
    expect_consistent(breccia);
    EXPECT_TRUE(has_family(breccia, "breccia.watermark"));
  }
};

}  // namespace

// Goal: the benchmarks that write leave what they leave with RocksDB.
// Method: stock db_bench twice with one seed; RocksDB alone reads both databases, entry by entry.
// Mutation: closing without a flush, or losing one entry in a flush, fails.
TEST_F(PreloadDbBench, Writes) {
  expect_same("--benchmarks=fillseq");
  expect_same("--benchmarks=fillrandom,overwrite,deleterandom");
  expect_same("--benchmarks=fillseq,deleteseq,fillsync --num=1500");
  expect_same("--benchmarks=fillrandom,compact,overwrite,levelstats,stats");
  expect_same("--benchmarks=filluniquerandom,updaterandom,xorupdaterandom");
  expect_same("--benchmarks=fillanddeleteuniquerandom,appendrandom --num=500");
  expect_same("--benchmarks=fillrandom,overwrite,compact --num_multi_db=0 --compaction_style=1");
  expect_same("--benchmarks=fillrandom --batch_size=10 --num_column_families=3");
  expect_same("--benchmarks=fillseq,overwrite --batch_size=200 --value_size=1000");
  expect_same("--benchmarks=fillrandom --disable_wal");
  expect_same("--benchmarks=fillrandom,overwrite --sync --num=300");
  expect_same(
      "--benchmarks=fillrandom --writes_per_range_tombstone=50 "
      "--max_num_range_tombstones=20");
}

// Goal: merges and read-modify-writes give what they give with RocksDB.
// Method: as above, with the operators that db_bench can name.
// Mutation: applying an operand twice, or in another order, fails.
TEST_F(PreloadDbBench, Merges) {
  expect_same("--benchmarks=mergerandom --merge_operator=put");
  expect_same("--benchmarks=fillrandom,mergerandom --merge_operator=uint64add --value_size=8");
  expect_same("--benchmarks=mergerandom,readrandom --merge_operator=stringappend --num=500");
  expect_same(
      "--benchmarks=fillseq,readrandommergerandom --merge_operator=uint64add "
      "--value_size=8 --mergereadpercent=50");
}

// Goal: the benchmarks that read find what they find with RocksDB, before and after a flush.
// Method: the counts that db_bench prints, and those of its statistics.
// Mutation: an iterator that ends one entry early, or a MultiGet that misses the tree, fails.
TEST_F(PreloadDbBench, Reads) {
  constexpr char kReads[] =
      "readrandom,multireadrandom,seekrandom,readseq,readreverse,readmissing,readtocache,"
      "readwhilescanning,newiterator,approximatesizerandom,verifychecksum";
  expect_same(std::string("--benchmarks=fillrandom,") + kReads);
  expect_same(std::string("--benchmarks=fillrandom,flush,overwrite,") + kReads +
              " --batch_size=64 --multiread_batched");
  expect_same(
      "--benchmarks=fillrandom,seekrandom --seek_nexts=10 --reverse_iterator "
      "--num_column_families=2");
  expect_same(
      "--benchmarks=fillseq,seekrandom --seek_nexts=5 --max_scan_distance=20 "
      "--use_tailing_iterator");
  expect_same(
      "--benchmarks=fillrandom,readrandom --use_existing_keys=0 --reads=700 "
      "--prefix_size=8 --keys_per_prefix=10");
}

// Goal: several threads leave the keys that they leave with RocksDB.
// Method: as above without values, as the last of two writers is open.
// Mutation: handles or statistics shared wrongly between threads crash or count wrong.
TEST_F(PreloadDbBench, ThreadsAndStatistics) {
  expect_same("--benchmarks=fillrandom,readrandom --threads=2", /*with_values=*/false);
  expect_same(
      "--benchmarks=fillseq,readwhilewriting,seekrandomwhilewriting --threads=2 --histogram",
      /*with_values=*/false);
  const Folder folder(Place::kMemory);
  const Ran ran = db_bench(Library::kBreccia, folder,
                           "--benchmarks=fillseq,readwhilewriting,randomwithverify,"
                           "readrandomwriterandom --threads=2 --statistics --histogram "
                           "--stats_per_interval=1",
                           "");
  EXPECT_NE(ran.out.find("Microseconds per"), std::string::npos);
  EXPECT_NE(ran.out.find("rocksdb.number.keys.written COUNT : "), std::string::npos);
  EXPECT_EQ(ran.out.find("rocksdb.number.keys.written COUNT : 0\n"), std::string::npos);
  expect_consistent(folder);
}

// Goal: a TransactionDB's program leaves what it leaves with RocksDB's, also on a database that
//          RocksDB's had before.
// Method: requests on both; overwrites of RocksDB's database; transactions of two threads over two
//          openings, with db_bench's own check of the sums that they keep (RocksDB's, as the
//          distribution has it, ends with an assertion there).
// Mutation: opening RocksDB's own makes no store.
TEST_F(PreloadDbBench, Transactions) {
  expect_same("--transaction_db --benchmarks=fillrandom,overwrite,deleterandom,seekrandom");
  expect_same("--transaction_db --benchmarks=fillseq,seekrandom --num_column_families=2");
  const Folder folder(Place::kMemory);
  db_bench(Library::kRocksDb, folder, "--transaction_db --benchmarks=fillseq", "");
  db_bench(Library::kBreccia, folder, "--transaction_db --benchmarks=overwrite --use_existing_db",
           "");
  EXPECT_TRUE(has_family(folder, "breccia.watermark"));
  EXPECT_EQ(contents(folder).size(), 2000U);
  for (const std::string again : {"", " --use_existing_db"}) {
    const Ran ran = db_bench(Library::kBreccia, folder,
                             "--transaction_db --benchmarks=randomtransaction --num=200 "
                             "--threads=2 --transaction_set_snapshot" +
                                 again,
                             "");
    EXPECT_NE(ran.out.find("RandomTransactionVerify Success"), std::string::npos) << ran.out;
  }
  expect_consistent(folder);
}

// Goal: entries that are read often are cached, as without the preload.
// Method: what is counted in the database's own LOG at its end; without clean runs, which an opened
//         store fills again.
// Mutation: a look at the tree below, which turns the cache off, leaves it empty.
TEST_F(PreloadDbBench, CachesEntries) {
  const Folder folder(Place::kMemory);
  db_bench(Library::kBreccia, folder, "--benchmarks=fillseq", "");
  db_bench(Library::kBreccia, folder, "--benchmarks=readrandom,readrandom --use_existing_db",
           "BRECCIA_CLEAN_BYTES=0");
  const Ran counted = run(Library::kRocksDb, folder, "grep entry-cache.hits db/LOG", "");
  EXPECT_EQ(matches(counted.out, "COUNT : [1-9][0-9]*").size(), 1U) << counted.out;
}

// Goal: a database is used again, whether it was flushed at its end or not.
// Method: fill without the flush; RocksDB alone sees nothing; a second run finds every key and
//          flushes.
// Mutation: a close that always flushes, or a log that is not replayed, fails.
TEST_F(PreloadDbBench, UsesAnExistingDatabase) {
  const Folder folder(Place::kMemory);
  db_bench(Library::kBreccia, folder, "--benchmarks=fillseq", "BRECCIA_FLUSH_AT_CLOSE=0");
  EXPECT_EQ(contents(folder).size(), 0U);
  const Ran again = db_bench(Library::kBreccia, folder,
                             "--benchmarks=readrandom,readseq,overwrite --use_existing_db", "");
  EXPECT_EQ(found_lines(again), std::vector<std::string>{"(2000 of 2000 found)"});
  EXPECT_EQ(contents(folder).size(), 2000U);
  const Ran keys = db_bench(Library::kBreccia, folder,
                            "--benchmarks=readrandom --use_existing_db --use_existing_keys", "");
  EXPECT_EQ(found_lines(keys), std::vector<std::string>{"(2000 of 2000 found)"});
  const Ran read_only =
      db_bench(Library::kBreccia, folder, "--benchmarks=readrandom --readonly", "");
  EXPECT_EQ(found_lines(read_only), std::vector<std::string>{"(2000 of 2000 found)"});
}

// Goal: a database goes from RocksDB to breccia and back.
// Method: fill by RocksDB, overwrite by breccia; RocksDB refuses to write to the store, and does so
//          after `breccia detach`; then breccia again.
// Mutation: a detach that leaves the log behind fails at the last step.
TEST_F(PreloadDbBench, ThereAndBackAgain) {
  const Folder folder(Place::kMemory);
  constexpr char kAgain[] = "--benchmarks=overwrite,readrandom --use_existing_db";
  db_bench(Library::kRocksDb, folder, "--benchmarks=fillseq", "");
  db_bench(Library::kBreccia, folder, kAgain, "BRECCIA_FLUSH_AT_CLOSE=0");
  const Ran refused =
      run(Library::kRocksDb, folder, std::string("db_bench --db=db --num=2000 ") + kAgain, "");
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("breccia.watermark"), std::string::npos) << refused.err;
  for (int round = 0; round < 2; ++round) {
    const Ran detached = run(Library::kRocksDb, folder, BRECCIA_PROGRAM " detach --db db", "");
    EXPECT_EQ(detached.code, 0) << detached.err;
  }
  EXPECT_FALSE(has_family(folder, "breccia.watermark"));
  EXPECT_FALSE(std::filesystem::exists(folder / "db/log"));
  EXPECT_EQ(found_lines(db_bench(Library::kRocksDb, folder, kAgain, "")),
            std::vector<std::string>{"(2000 of 2000 found)"});
  EXPECT_EQ(found_lines(db_bench(Library::kBreccia, folder, kAgain, "")),
            std::vector<std::string>{"(2000 of 2000 found)"});
  EXPECT_EQ(contents(folder).size(), 2000U);
}

// Goal: logs lie where BRECCIA_LOG_DIR says, each database's apart, and go with their database.
// Method: two databases; one is made anew.
// Mutation: a DestroyDB that leaves the log fails to open.
TEST_F(PreloadDbBench, LogFolder) {
  const Folder folder(Place::kMemory);
  const std::string logs = "BRECCIA_LOG_DIR=" + (folder / "logs");
  for (const char* const name : {"one", "two", "one"}) {
    const std::string database = "--benchmarks=fillseq,readrandom --db=" + std::string(name);
    const Ran ran = db_bench(Library::kBreccia, folder, database, logs);
    EXPECT_EQ(found_lines(ran), std::vector<std::string>{"(2000 of 2000 found)"});
    EXPECT_FALSE(std::filesystem::exists(folder / name + "/log"));
  }
  const auto entries = std::filesystem::directory_iterator(folder / "logs");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2);
}

}  // namespace breccia::testing
