#include <gtest/gtest.h>
#include <rocksdb/convenience.h>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;
using Properties = rocksdb::DB::Properties;

Given one_family() {
  Given given = usual();
  given.families = {"one"};
  return given;
}

std::uint64_t figure(Db& db, const std::string& name, const std::string& family = "default") {
  std::uint64_t value = 0;
  EXPECT_TRUE(db->GetIntProperty(db.handle(family), name, &value)) << name;
  std::string text;
  EXPECT_TRUE(db->GetProperty(db.handle(family), name, &text)) << name;
  EXPECT_EQ(text, std::to_string(value)) << name;
  return value;
}

void note(Db& db, const std::string& name, const std::string& family = "default") {
  db.note(family + " " + name + " " + std::to_string(figure(db, name, family)));
}

}  // namespace

// Goal: figures that count entries and snapshots are RocksDB's.
// Method: puts and deletions in two families, snapshots; before and after a flush; sums over
//          families.
// Mutation: handing on the tree's figures, whose memtables are empty, fails.
TEST(FacadeFigures, Counts) {
  expect_same(
      [](Db& db) {
        for (int pass = 0; pass < 2; ++pass) {
          for (int i = 0; i < 100; ++i) {
            EXPECT_TRUE(db->Put(kWrite, std::to_string(i), "value").ok());
          }
          // Of keys of their own: a merge of runs drops what is hidden.
          for (int i = 0; i < 10; ++i) {
            EXPECT_TRUE(db->Delete(kWrite, "deleted" + std::to_string(i)).ok());
          }
          EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "a", "1").ok());
          const auto entries = [&](const std::string& family) {
            return figure(db, Properties::kNumEntriesActiveMemTable, family) +
                   figure(db, Properties::kNumEntriesImmMemTables, family);
          };
          const auto deletes = figure(db, Properties::kNumDeletesActiveMemTable) +
                               figure(db, Properties::kNumDeletesImmMemTables);
          db.note("entries " + std::to_string(entries("default")) + " " +
                  std::to_string(entries("one")) + " deletes " + std::to_string(deletes));
          note(db, Properties::kEstimateNumKeys);
          note(db, Properties::kEstimateNumKeys, "one");
          std::uint64_t sum = 0;
          EXPECT_TRUE(db->GetAggregatedIntProperty(Properties::kEstimateNumKeys, &sum));
          db.note("sum " + std::to_string(sum));
          const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
          note(db, Properties::kNumSnapshots);
          db.note(figure(db, Properties::kOldestSnapshotSequence) == snapshot->GetSequenceNumber()
                      ? "oldest"
                      : "another");
          db.note(figure(db, Properties::kOldestSnapshotTime) > 1'600'000'000 ? "now" : "then");
          db->ReleaseSnapshot(snapshot);
          note(db, Properties::kOldestSnapshotTime);
          note(db, Properties::kBackgroundErrors);
          EXPECT_TRUE(db->Flush({}).ok());
          EXPECT_TRUE(db->Flush({}, db.handle("one")).ok());
          db.note("entries " + std::to_string(entries("default")));
        }
      },
      one_family());
}

// Goal: sizes of memtables grow with what is written and go to nothing with a flush.
// Method: the three figures of bytes around 1 MB of values.
// Mutation: counting entries instead of bytes fails.
TEST(FacadeFigures, MemtableBytes) {
  for (const std::uint32_t run_requests_min : {0, 1}) {
    Given given = usual();
    given.run_requests_min = run_requests_min;
    Db db(Kind::kBreccia, given);
    ASSERT_TRUE(db.open().ok());
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(db->Put(kWrite, std::to_string(i), std::string(1000, 'v')).ok());
    }
    const auto all = figure(db, Properties::kCurSizeAllMemTables);
    EXPECT_GT(all, 1'000'000u);
    EXPECT_LT(all, 1'100'000u);
    EXPECT_EQ(figure(db, Properties::kSizeAllMemTables), all);
    EXPECT_EQ(figure(db, Properties::kCurSizeActiveMemTable) != 0, run_requests_min == 0);
    // Once: runs are merged meanwhile.
    std::uint64_t runs = 0;
    ASSERT_TRUE(db->GetIntProperty(Properties::kNumImmutableMemTable, &runs));
    EXPECT_EQ(runs != 0, run_requests_min == 1);
    ASSERT_TRUE(db->Flush({}).ok());
    EXPECT_EQ(figure(db, Properties::kCurSizeAllMemTables), 0u);
  }
}

// Goal: names that are nobody's are refused, breccia's own are answered, maps are RocksDB's.
// Method: a few of each.
// Mutation: answering an unknown name fails.
TEST(FacadeFigures, Names) {
  expect_same([](Db& db) {
    std::uint64_t number = 0;
    std::string text;
    std::map<std::string, std::string> map;
    db.note(db->GetProperty("rocksdb.no-such", &text) ? "yes" : "no");
    db.note(db->GetIntProperty("rocksdb.no-such", &number) ? "yes" : "no");
    db.note(db->GetIntProperty(Properties::kStats, &number) ? "yes" : "no");
    db.note(db->GetAggregatedIntProperty("rocksdb.no-such", &number) ? "yes" : "no");
    db.note(db->GetMapProperty("rocksdb.no-such", &map) ? "yes" : "no");
    db.note(db->GetProperty(Properties::kStats, &text) && !text.empty() ? "stats" : "no");
    db.note(db->GetMapProperty(Properties::kCFStats, &map) && !map.empty() ? "map" : "no");
    db.note(db->GetIntProperty(Properties::kBaseLevel, &number) ? "level" : "no");
    db.note("reset", db->ResetStats());
  });
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  std::string text;
  EXPECT_TRUE(db->GetProperty("breccia.backend", &text));
  EXPECT_NE(text.find("host"), std::string::npos);
  EXPECT_FALSE(db->GetProperty("breccia.no-such", &text));
}

// Goal: approximate sizes count what lies in memory where they are asked to.
// Method: a range of half the keys, in memory, in files, in both; wrong options.
// Mutation: leaving out the runs, or the memtable, fails.
TEST(FacadeFigures, ApproximateSizes) {
  for (const std::uint32_t run_requests_min : {0, 1}) {
    Given given = usual();
    given.run_requests_min = run_requests_min;
    Db db(Kind::kBreccia, given);
    ASSERT_TRUE(db.open().ok());
    rocksdb::SizeApproximationOptions options;
    options.include_memtables = true;
    options.include_files = false;
    const rocksdb::Range half("000", "500");
    std::uint64_t size = 0;
    std::uint64_t count = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::string key = std::to_string(1000 + i).substr(1);
      ASSERT_TRUE(db->Put(kWrite, key, std::string(1000, 'v')).ok());
    }
    auto* const family = db->DefaultColumnFamily();
    EXPECT_TRUE(db->GetApproximateSizes(options, family, &half, 1, &size).ok());
    EXPECT_NEAR(size, 500'000, 50'000);
    db->GetApproximateMemTableStats(half, &count, &size);
    EXPECT_EQ(count, 500u);
    EXPECT_NEAR(size, 500'000, 50'000);
    options.include_files = true;
    ASSERT_TRUE(db->Flush({}).ok());
    EXPECT_TRUE(db->GetApproximateSizes(options, family, &half, 1, &size).ok());
    EXPECT_NEAR(size, 500'000, 100'000);
    options.include_memtables = options.include_files = false;
    EXPECT_TRUE(db->GetApproximateSizes(options, family, &half, 1, &size).IsInvalidArgument());
  }
}

// Goal: options read back are those that were given, and those that can be changed change.
// Method: trigger options that the engine scales, options of the database, wrong values.
// Mutation: setting a trigger without scaling it reads back as 0.
TEST(FacadeFigures, Options) {
  Given given = one_family();
  given.family.level0_file_num_compaction_trigger = 7;
  given.family.level0_stop_writes_trigger = 77;
  given.family.target_file_size_base = 1 << 20;
  given.db.create_missing_column_families = true;
  expect_same(
      [](Db& db) {
        auto* const one = db.handle("one");
        const auto note_options = [&] {
          for (const rocksdb::Options& options : {db->GetOptions(), db->GetOptions(one)}) {
            db.note(std::to_string(options.level0_file_num_compaction_trigger) + " " +
                    std::to_string(options.level0_stop_writes_trigger) + " " +
                    std::to_string(options.target_file_size_base) + " " +
                    std::to_string(options.max_background_jobs) +
                    (options.create_if_missing ? " create" : "") +
                    (options.create_missing_column_families ? " families" : "") +
                    (options.error_if_exists ? " new" : ""));
          }
          db.note(std::to_string(db->GetDBOptions().max_background_jobs));
        };
        note_options();
        db.note("set", db->SetOptions(one, {{"level0_file_num_compaction_trigger", "9"}}));
        db.note("set", db->SetOptions({{"target_file_size_base", "2000000"}}));
        db.note("set db", db->SetDBOptions({{"max_background_jobs", "3"}}));
        db.note("wrong", db->SetOptions({{"level0_file_num_compaction_trigger", "many"}}));
        db.note("wrong", db->SetOptions({{"no such option", "1"}}));
        db.note("wrong", db->SetDBOptions({{"no such option", "1"}}));
        note_options();
        db.note(std::to_string(db->NumberLevels()) + " " +
                std::to_string(db->MaxMemCompactionLevel()) + " " +
                std::to_string(db->Level0StopWriteTrigger()));
        db.note(db->GetName() == db.path() ? "name" : "another name");
        db.note(db->GetEnv() == rocksdb::Env::Default() ? "env" : "another env");
        db.note(db->GetFileSystem() != nullptr ? "file system" : "none");
      },
      given);
}

}  // namespace breccia::testing
