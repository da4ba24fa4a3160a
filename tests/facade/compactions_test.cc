#include <gtest/gtest.h>
#include <rocksdb/experimental.h>
#include <rocksdb/stats_history.h>
#include <rocksdb/trace_reader_writer.h>
#include <rocksdb/utilities/replayer.h>

#include <thread>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

void put(Db& db, int from, int to, const std::string& value) {
  for (int i = from; i < to; ++i) {
    EXPECT_TRUE(db->Put(kWrite, std::to_string(i), value).ok());
  }
}

}  // namespace

// Goal: a compaction takes what was written before it along, and leaves the same entries.
// Method: CompactRange of all and of a part, to another level, with deletions; then one level is
//          left.
// Mutation: not flushing first leaves entries out of the level.
TEST(FacadeCompactions, CompactRange) {
  expect_same([](Db& db) {
    put(db, 0, 100, "1");
    EXPECT_TRUE(db->Flush({}).ok());
    put(db, 50, 150, "2");
    EXPECT_TRUE(db->DeleteRange(kWrite, db->DefaultColumnFamily(), "0", "2").ok());
    const Slice begin("3");
    const Slice end("5");
    db.note("part", db->CompactRange({}, &begin, &end));
    db.note("all", db->CompactRange({}, nullptr, nullptr));
    rocksdb::CompactRangeOptions options;
    options.change_level = true;
    options.target_level = 2;
    db.note("level", db->CompactRange(options, nullptr, nullptr));
    rocksdb::ColumnFamilyMetaData metadata;
    db->GetColumnFamilyMetaData(&metadata);
    for (const auto& level : metadata.levels) {
      db.note(std::to_string(level.level) + (level.files.empty() ? " none" : " files"));
    }
    db.scan();
  });
}

// Goal: compactions can be aimed at files, held back and let go.
// Method: CompactFiles to the last level (our flush may put a file there itself),
//          SuggestCompactRange, PromoteL0, manual and automatic compaction off and on.
// Mutation: handing our own handle to the tree unopened would crash.
TEST(FacadeCompactions, Control) {
  expect_same([](Db& db) {
    auto* const family = db->DefaultColumnFamily();
    put(db, 0, 100, "1");
    EXPECT_TRUE(db->Flush({}).ok());
    rocksdb::ColumnFamilyMetaData metadata;
    db->GetColumnFamilyMetaData(&metadata);
    std::vector<std::string> names;
    for (const auto& level : metadata.levels) {
      for (const auto& file : level.files) names.push_back(file.name);
    }
    std::vector<std::string> output;
    db.note("files", db->CompactFiles({}, names, 6, -1, &output));
    db.note(std::to_string(output.size()));
    db.note("no files", db->CompactFiles({}, {"no such file"}, 6));
    db.note("suggest", db->SuggestCompactRange(family, nullptr, nullptr));
    db.note("suggest", rocksdb::experimental::SuggestCompactRange(db.get(), nullptr, nullptr));
    db->DisableManualCompaction();
    db.note("disabled", db->CompactRange({}, nullptr, nullptr));
    db->EnableManualCompaction();
    db.note("enabled", db->CompactRange({}, nullptr, nullptr));
    db.note("automatic", db->EnableAutoCompaction({family}));
    db.note("resume", db->Resume());
    db.scan();
  });
}

// Goal: PromoteL0 moves files down and refuses what RocksDB refuses.
// Method: a promotion to level 1, one to a level that does not take it.
// Mutation: not forwarding it fails.
TEST(FacadeCompactions, PromoteL0) {
  Given given = usual();
  given.family.disable_auto_compactions = true;
  expect_same(
      [](Db& db) {
        auto* const family = db->DefaultColumnFamily();
        put(db, 0, 10, "1");
        EXPECT_TRUE(db->Flush({}).ok());
        db.note("to 0", db->PromoteL0(family, 0));
        db.note("to 99", db->PromoteL0(family, 99));
        db.scan();
      },
      given);
}

// Goal: a database without automatic compactions takes flush after flush.
// Method: more flushes than level0_stop_writes_trigger, as RocksDB does not stop at it then.
// Mutation: holding flushes back for level-0 files that nobody will compact hangs.
TEST(FacadeCompactions, WithoutAutomaticOnes) {
  Given given = usual();
  given.family.disable_auto_compactions = true;
  given.family.level0_stop_writes_trigger = 3;
  given.family.level0_slowdown_writes_trigger = 3;
  expect_same(
      [](Db& db) {
        for (int i = 0; i < 14; ++i) {
          put(db, 0, 10, std::to_string(i));
          db.note("flush", db->Flush({}));
        }
        db.scan();
      },
      given);
}

// Goal: while background work is paused nothing is flushed; writes and reads go on.
// Method: pause twice, write, ask for a flush in a thread, continue twice.
// Mutation: letting the flush in before the second call fails.
TEST(FacadeCompactions, PauseBackgroundWork) {
  expect_same([](Db& db) {
    db.note("pause", db->PauseBackgroundWork());
    db.note("pause", db->PauseBackgroundWork());
    put(db, 0, 10, "1");
    db.get("1");
    std::thread flusher([&] { EXPECT_TRUE(db->Flush({}).ok()); });
    db.note("continue", db->ContinueBackgroundWork());
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    rocksdb::ColumnFamilyMetaData metadata;
    db->GetColumnFamilyMetaData(&metadata);
    db.note(std::to_string(metadata.file_count) + " files");
    db.note("continue", db->ContinueBackgroundWork());
    flusher.join();
    db->GetColumnFamilyMetaData(&metadata);
    db.note(std::to_string(metadata.file_count) + " files");
    db.note("too often", db->ContinueBackgroundWork());
  });
}

// Goal: closing a database whose background work is paused ends.
// Method: pause, write, flush without waiting, close.
// Mutation: keeping the pause while closing hangs.
TEST(FacadeCompactions, CloseWhilePaused) {
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->PauseBackgroundWork().ok());
  put(db, 0, 10, "1");
  rocksdb::FlushOptions later;
  later.wait = false;
  ASSERT_TRUE(db->Flush(later).ok());
  db.reopen();
  std::string value;
  EXPECT_TRUE(db->Get({}, "1", &value).ok());
}

// Goal: functions that speak of timestamps and traces answer; none passes our log by.
// Method: each; statistics history and block cache traces are the tree's.
// Mutation: tracing the tree's empty write path as if it were the user's fails.
TEST(FacadeCompactions, TimestampsAndTraces) {
  expect_same([](Db& db) {
    auto* const family = db->DefaultColumnFamily();
    std::string low;
    db.note("increase", db->IncreaseFullHistoryTsLow(family, "1"));
    db.note("get", db->GetFullHistoryTsLow(family, &low));
    std::unique_ptr<rocksdb::StatsHistoryIterator> history;
    db.note("history", db->GetStatsHistory(0, 1, &history));
    db.note("catch up", db->TryCatchUpWithPrimary());
    const rocksdb::EnvOptions files;
    std::unique_ptr<rocksdb::TraceWriter> writer;
    EXPECT_TRUE(rocksdb::NewFileTraceWriter(db->GetEnv(), files, db.beside("io"), &writer).ok());
    db.note("io trace", db->StartIOTrace({}, std::move(writer)));
    db.note("io trace", db->EndIOTrace());
    EXPECT_TRUE(rocksdb::NewFileTraceWriter(db->GetEnv(), files, db.beside("cache"), &writer).ok());
    db.note("cache trace", db->StartBlockCacheTrace(rocksdb::TraceOptions(), std::move(writer)));
    db.note("cache trace", db->EndBlockCacheTrace());
  });
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  std::unique_ptr<rocksdb::TraceWriter> writer;
  std::unique_ptr<rocksdb::TraceReader> reader;
  std::unique_ptr<rocksdb::Replayer> replayer;
  EXPECT_TRUE(db->StartTrace({}, std::move(writer)).IsNotSupported());
  EXPECT_TRUE(db->EndTrace().IsNotSupported());
  EXPECT_TRUE(db->NewDefaultReplayer({}, std::move(reader), &replayer).IsNotSupported());
}

}  // namespace breccia::testing
