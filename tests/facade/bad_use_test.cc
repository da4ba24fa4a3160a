#include <breccia/rocks.h>
#include <gtest/gtest.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>

#include <functional>
#include <memory>
#include <thread>

#include "base/limits.h"
#include "both.h"
#include "support/sparse_files.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

std::string get(rocksdb::DB* db, const std::string& key) {
  std::string value;
  const Status status = db->Get({}, key, &value);
  return status.ok() ? value : code_of(status);
}

std::unique_ptr<Db> open(const Given& given = usual()) {
  auto db = std::make_unique<Db>(Kind::kBreccia, given);
  const Status status = db->open();
  EXPECT_TRUE(status.ok()) << status.ToString();
  return db;
}

}  // namespace

// Goal: a handle that is not of this database is an error of every function, and does nothing.
// Method: handles of another database of ours, of RocksDB's, one destroyed, and none.
// Mutation: trusting the number in a handle writes into the wrong family.
TEST(FacadeBadUse, WrongHandle) {
  Given given = usual();
  given.families = {"one"};
  const auto db = open(given);
  const auto other = open(given);
  Db rocks(Kind::kRocksDb, given);
  ASSERT_TRUE(rocks.open().ok());
  rocksdb::ColumnFamilyHandle* destroyed = nullptr;
  ASSERT_TRUE((*db)->CreateColumnFamily(given.family, "two", &destroyed).ok());
  ASSERT_TRUE((*db)->DestroyColumnFamilyHandle(destroyed).ok());
  for (rocksdb::ColumnFamilyHandle* handle : {other->handle("one"), rocks.handle("one"), destroyed,
                                              static_cast<rocksdb::ColumnFamilyHandle*>(nullptr)}) {
    EXPECT_TRUE((*db)->Put(kWrite, handle, "a", "1").IsInvalidArgument());
    std::string value;
    EXPECT_TRUE((*db)->Get({}, handle, "a", &value).IsInvalidArgument());
    const std::unique_ptr<rocksdb::Iterator> at((*db)->NewIterator({}, handle));
    EXPECT_TRUE(at->status().IsInvalidArgument());
    std::vector<rocksdb::Iterator*> iterators;
    EXPECT_TRUE((*db)->NewIterators({}, {handle}, &iterators).IsInvalidArgument());
    std::vector<std::string> values;
    const auto statuses = (*db)->MultiGet({}, {db->handle("one"), handle}, {"a", "a"}, &values);
    EXPECT_TRUE(statuses[0].IsIncomplete());
    EXPECT_TRUE(statuses[1].IsInvalidArgument());
    EXPECT_TRUE((*db)->DropColumnFamily(handle).IsInvalidArgument());
    EXPECT_TRUE((*db)->DestroyColumnFamilyHandle(handle).IsInvalidArgument());
    EXPECT_TRUE((*db)->Flush({}, handle).IsInvalidArgument());
    EXPECT_TRUE((*db)->CompactRange({}, handle, nullptr, nullptr).IsInvalidArgument());
    EXPECT_TRUE((*db)->SetOptions(handle, {}).IsInvalidArgument());
    EXPECT_TRUE((*db)->IngestExternalFile(handle, {"none"}, {}).IsInvalidArgument());
    std::uint64_t figure = 0;
    EXPECT_FALSE((*db)->GetIntProperty(handle, "rocksdb.estimate-num-keys", &figure));
    EXPECT_EQ((*db)->NumberLevels(handle), 0);
    (void)(*db)->GetOptions(handle);
  }
  EXPECT_EQ(get(db->get(), "a"), "NotFound");
}

// Goal: a released or foreign snapshot is an error of every read, not a crash.
// Method: reads at a snapshot after its release, at one of another database, released twice.
// Mutation: reading what the pointer points to fails under the address sanitizer.
TEST(FacadeBadUse, WrongSnapshot) {
  const auto db = open();
  const auto other = open();
  ASSERT_TRUE((*db)->Put(kWrite, "a", "1").ok());
  const rocksdb::Snapshot* const released = (*db)->GetSnapshot();
  (*db)->ReleaseSnapshot(released);
  (*db)->ReleaseSnapshot(released);
  const rocksdb::Snapshot* const foreign = (*other)->GetSnapshot();
  (*db)->ReleaseSnapshot(foreign);
  for (const rocksdb::Snapshot* snapshot : {released, foreign}) {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    std::string value;
    EXPECT_TRUE((*db)->Get(options, "a", &value).IsInvalidArgument());
    const std::unique_ptr<rocksdb::Iterator> at((*db)->NewIterator(options));
    EXPECT_TRUE(at->status().IsInvalidArgument());
    EXPECT_FALSE(at->Valid());
    std::vector<std::string> values;
    EXPECT_TRUE((*db)->MultiGet(options, {"a"}, &values)[0].IsInvalidArgument());
    std::vector<rocksdb::Iterator*> iterators;
    EXPECT_TRUE((*db)
                    ->NewIterators(options, {(*db)->DefaultColumnFamily()}, &iterators)
                    .IsInvalidArgument());
  }
  (*other)->ReleaseSnapshot(foreign);
}

// Goal: what was released or destroyed stays an error when new ones are taken, and does not touch
//       them.
// Method: a snapshot is released and another taken, a handle destroyed and another made, again and
//         again; the old ones are used, and released and destroyed once more.
// Mutation: freeing them at once gives the next one the same address within a few rounds.
TEST(FacadeBadUse, ReleasedAndTakenAgain) {
  const auto db = open();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE((*db)->Put(kWrite, "a", std::to_string(round)).ok());
    rocksdb::ReadOptions released;
    released.snapshot = (*db)->GetSnapshot();
    (*db)->ReleaseSnapshot(released.snapshot);
    rocksdb::ReadOptions taken;
    taken.snapshot = (*db)->GetSnapshot();
    std::string value;
    EXPECT_TRUE((*db)->Get(released, "a", &value).IsInvalidArgument()) << round;
    (*db)->ReleaseSnapshot(released.snapshot);
    EXPECT_TRUE((*db)->Get(taken, "a", &value).ok()) << round;
    EXPECT_EQ(value, std::to_string(round));
    (*db)->ReleaseSnapshot(taken.snapshot);

    rocksdb::ColumnFamilyHandle* destroyed = nullptr;
    const std::string name = std::to_string(round);
    ASSERT_TRUE((*db)->CreateColumnFamily(usual().family, "old " + name, &destroyed).ok());
    ASSERT_TRUE((*db)->DestroyColumnFamilyHandle(destroyed).ok());
    rocksdb::ColumnFamilyHandle* made = nullptr;
    ASSERT_TRUE((*db)->CreateColumnFamily(usual().family, "new " + name, &made).ok());
    EXPECT_TRUE((*db)->Put(kWrite, destroyed, "a", "1").IsInvalidArgument()) << round;
    EXPECT_TRUE((*db)->DestroyColumnFamilyHandle(destroyed).IsInvalidArgument()) << round;
    EXPECT_TRUE((*db)->Put(kWrite, made, "a", "1").ok()) << round;
    ASSERT_TRUE((*db)->DestroyColumnFamilyHandle(made).ok());
  }
}

// Goal: a database with unreleased snapshots refuses to close, and closes when they are released.
// Method: close, release, close twice; then functions with handles answer with an error.
// Mutation: closing anyway would leave the snapshot's memory to nobody.
TEST(FacadeBadUse, CloseAndAfterwards) {
  expect_same([](Db& db) {
    const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
    db.note("close", db->Close());
    db->ReleaseSnapshot(snapshot);
    db.note("put", db->Put(kWrite, "a", "1"));
  });
  const auto db = open();
  auto* const family = (*db)->DefaultColumnFamily();
  db->destroy("default");
  EXPECT_TRUE((*db)->Close().ok());
  EXPECT_TRUE((*db)->Close().ok());
  EXPECT_TRUE((*db)->Put(kWrite, "a", "1").IsInvalidArgument());
  EXPECT_EQ(get(db->get(), "a"), "InvalidArgument");
  EXPECT_TRUE((*db)->Flush({}, family).IsInvalidArgument());
  EXPECT_TRUE((*db)->SyncWAL().IsInvalidArgument());
  EXPECT_EQ((*db)->GetSnapshot(), nullptr);
  EXPECT_EQ((*db)->GetLatestSequenceNumber(), 0u);
  rocksdb::WriteBatch batch;
  EXPECT_TRUE((*db)->Write(kWrite, &batch).IsInvalidArgument());
  std::string text;
  std::uint64_t number = 0;
  EXPECT_EQ((*db)->GetName(), db->path());
  EXPECT_EQ((*db)->GetEnv(), sparse_env());
  EXPECT_NE((*db)->GetFileSystem(), nullptr);
  EXPECT_NE((*db)->GetRootDB(), nullptr);
  EXPECT_EQ((*db)->GetDBOptions().env, sparse_env());
  EXPECT_EQ((*db)->GetOptions(family).env, sparse_env());
  EXPECT_TRUE((*db)->GetDbIdentity(text).IsInvalidArgument());
  EXPECT_TRUE((*db)->GetDbSessionId(text).IsInvalidArgument());
  EXPECT_TRUE((*db)->GetCreationTimeOfOldestFile(&number).IsInvalidArgument());
  EXPECT_TRUE((*db)->SetDBOptions({{"max_open_files", "100"}}).IsInvalidArgument());
  EXPECT_TRUE((*db)->VerifyChecksum().IsInvalidArgument());
  EXPECT_TRUE((*db)->DisableFileDeletions().IsInvalidArgument());
  EXPECT_TRUE((*db)->EnableFileDeletions(false).IsInvalidArgument());
  EXPECT_TRUE((*db)->ResetStats().IsInvalidArgument());
  (*db)->DisableManualCompaction();
  (*db)->EnableManualCompaction();
}

// Goal: a database with iterators of any kind refuses to close, loses nothing, and closes when they
//       are deleted. An iterator that is moved from no entry has an error until the next seek.
// Method: each kind alone; with memtables and runs, above files. Opened again at once.
// Mutation: closing beside an iterator leaves the folder locked; moving from no entry crashes.
TEST(FacadeBadUse, CloseWithIterators) {
  using Made = std::shared_ptr<void>;
  using Make = std::function<Made(rocksdb::DB*)>;
  const auto check = [](rocksdb::Iterator* at) {
    at->Next();
    EXPECT_TRUE(at->status().IsInvalidArgument()) << at->status().ToString();
    int entries = 0;
    for (at->SeekToFirst(); at->Valid(); at->Next()) ++entries;
    EXPECT_EQ(entries, 2);
    EXPECT_TRUE(at->status().ok());
    at->Next();
    EXPECT_FALSE(at->Valid());
    EXPECT_TRUE(at->status().IsInvalidArgument());
    EXPECT_TRUE(at->columns().empty());
    at->Seek("b");
    EXPECT_TRUE(at->Valid());
    EXPECT_EQ(at->value(), "1");
  };
  const auto make = [&](rocksdb::DB* db, const rocksdb::ReadOptions& options) {
    const std::shared_ptr<rocksdb::Iterator> at(db->NewIterator(options));
    check(at.get());
    return at;
  };
  const std::vector<Make> kinds = {
      [&](rocksdb::DB* db) { return make(db, {}); },
      [&](rocksdb::DB* db) {
        rocksdb::ReadOptions options;
        options.tailing = true;
        return make(db, options);
      },
      [&](rocksdb::DB* db) -> Made {
        std::vector<rocksdb::Iterator*> iterators;
        EXPECT_TRUE(db->NewIterators({}, {db->DefaultColumnFamily()}, &iterators).ok());
        return std::shared_ptr<rocksdb::Iterator>(iterators.at(0));
      },
      [&](rocksdb::DB* db) -> Made {
        std::unique_ptr<rocksdb::TransactionLogIterator> updates;
        const Status status = db->GetUpdatesSince(0, &updates);
        EXPECT_TRUE(status.ok()) << status.ToString();
        return std::shared_ptr<rocksdb::TransactionLogIterator>(std::move(updates));
      }};
  for (const std::uint32_t run_requests_min : {0, 1}) {
    Given given = usual();
    given.run_requests_min = run_requests_min;
    const auto db = open(given);
    for (const Make& make_one : kinds) {
      ASSERT_TRUE((*db)->Put(kWrite, "a", "1").ok());
      ASSERT_TRUE((*db)->Flush({}).ok());
      ASSERT_TRUE((*db)->Put(kWrite, "b", "1").ok());
      Made made = make_one(db->get());
      ASSERT_NE(made, nullptr);
      EXPECT_TRUE((*db)->Close().IsAborted());
      EXPECT_TRUE((*db)->Put(kWrite, "b", "1").ok());
      EXPECT_EQ(get(db->get(), "a"), "1");
      made.reset();
      db->reopen();
      EXPECT_EQ(get(db->get(), "b"), "1");
    }
  }
}

// Goal: an iterator and a handle that outlive their database do no harm.
// Method: the database is deleted under both; the iterator goes on in every direction, and when it
//         is refreshed; then both are deleted.
// Mutation: an iterator that does not hold what it reads fails under the address sanitizer.
TEST(FacadeBadUse, IteratorAndHandleOutliveTheDatabase) {
  const Folder folder(Place::kMemory);
  const std::string path = folder / "db";
  for (const std::uint32_t run_requests_min : {0, 1}) {
    Given given = usual();
    given.run_requests_min = run_requests_min;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(
        Rocks::Open(options_of(given, path), path, {{"default", given.family}}, &handles, &opened)
            .ok());
    ASSERT_TRUE(opened->Put(kWrite, "a", "1").ok());
    ASSERT_TRUE(opened->Flush({}).ok());
    ASSERT_TRUE(opened->Put(kWrite, "b", "1").ok());
    std::unique_ptr<rocksdb::Iterator> at(opened->NewIterator({}));
    delete opened;
    for (int again = 0; again < 2; ++again) {
      int entries = 0;
      for (at->SeekToFirst(); at->Valid(); at->Next()) ++entries;
      EXPECT_TRUE(at->status().ok());
      EXPECT_EQ(entries, 2);
      at->SeekForPrev("b");
      ASSERT_TRUE(at->Valid());
      at->Prev();
      ASSERT_TRUE(at->Valid());
      EXPECT_EQ(at->key(), "a");
      EXPECT_TRUE(at->Refresh().ok());
      EXPECT_FALSE(at->Valid());
    }
    rocksdb::DB* second = nullptr;
    EXPECT_TRUE(Rocks::Open(options_of(given, path), path, &second).IsIOError());
    at.reset();
    EXPECT_EQ(handles[0]->GetName(), "default");
    rocksdb::ColumnFamilyDescriptor descriptor;
    EXPECT_TRUE(handles[0]->GetDescriptor(&descriptor).IsInvalidArgument());
    delete handles[0];
    ASSERT_TRUE(Rocks::Open(options_of(given, path), path, &second).ok());
    delete second;
  }
}

// Goal: a key, a value or a batch over its limit is refused, and nothing of its batch is written.
// Method: a key at and over the limit alone and in a batch; reads of a key that is too long.
// Mutation: writing the rest of the batch fails.
TEST(FacadeBadUse, OverTheLimit) {
  const auto db = open();
  const std::string longest(limits::kKeyBytesMax, 'k');
  const std::string too_long = longest + "k";
  EXPECT_TRUE((*db)->Put(kWrite, longest, "1").ok());
  EXPECT_TRUE((*db)->Put(kWrite, too_long, "1").IsInvalidArgument());
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(batch.Put("a", "1").ok());
  ASSERT_TRUE(batch.Put(too_long, "1").ok());
  EXPECT_TRUE((*db)->Write(kWrite, &batch).IsInvalidArgument());
  EXPECT_EQ(get(db->get(), "a"), "NotFound");
  EXPECT_EQ(get(db->get(), longest), "1");
  EXPECT_EQ(get(db->get(), too_long), "NotFound");
  std::vector<std::string> values;
  const auto statuses = (*db)->MultiGet({}, {longest, too_long, "a"}, &values);
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_TRUE(statuses[1].IsNotFound());
  EXPECT_TRUE(statuses[2].IsNotFound());
}

// Goal: longer keys that RocksDB wrote into the tree are found.
// Method: RocksDB writes one, breccia reads it by every function.
// Mutation: taking a long key for one that cannot be fails.
TEST(FacadeBadUse, LongKeyOfRocksDb) {
  const std::string too_long(limits::kKeyBytesMax + 1000, 'k');
  Db rocks(Kind::kRocksDb, usual());
  ASSERT_TRUE(rocks.open().ok());
  ASSERT_TRUE(rocks->Put(kWrite, too_long, "value").ok());
  rocks.close();
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(Rocks::Open(options_of(usual(), rocks.path()), rocks.path(), &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  ASSERT_TRUE(db->Put(kWrite, "a", "1").ok());
  EXPECT_EQ(get(db.get(), too_long), "value");
  std::vector<std::string> values;
  const auto statuses = db->MultiGet({}, {"a", too_long}, &values);
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_TRUE(statuses[1].ok());
  EXPECT_EQ(values, (std::vector<std::string>{"1", "value"}));
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
  at->Seek("b");
  ASSERT_TRUE(at->Valid());
  EXPECT_EQ(at->key(), too_long);
}

// Goal: a database opened without its merge operator says so for the merged keys, and opening it
//       with the operator finds all.
// Method: operands in the log, alone and above a put; opened without the operator: reads, a flush;
//         then with it. RocksDB compacts nothing by itself: a compaction that meets operands
//         without their operator is a background error in any RocksDB, and whether one begins is
//         chance.
// Mutation: dropping operands that cannot be combined loses them.
TEST(FacadeBadUse, UnknownMergeOperator) {
  for (const bool above_put : {false, true}) {
    const auto db = open();
    ASSERT_TRUE((*db)->Put(kWrite, "plain", "1").ok());
    if (above_put) {
      ASSERT_TRUE((*db)->Put(kWrite, "merged", "0").ok());
    }
    for (int i = 0; i < 2; ++i) ASSERT_TRUE((*db)->Merge(kWrite, "merged", "1").ok());
    const auto merge_operator = db->given().family.merge_operator;
    db->given().family.merge_operator = nullptr;
    db->given().family.disable_auto_compactions = true;
    db->reopen();
    EXPECT_EQ(get(db->get(), "plain"), "1");
    EXPECT_EQ(get(db->get(), "merged"), "InvalidArgument");
    EXPECT_TRUE((*db)->Merge(kWrite, "merged", "2").IsNotSupported());
    // Operands alone go into the tree as they are; above a put RocksDB could not read them there.
    EXPECT_EQ((*db)->Flush({}).ok(), !above_put);
    EXPECT_EQ((*db)->Put(kWrite, "after", "1").ok(), !above_put);
    EXPECT_EQ((*db)->Resume().ok(), !above_put);
    EXPECT_EQ(get(db->get(), "plain"), "1");
    db->given().family.merge_operator = merge_operator;
    db->reopen();
    EXPECT_EQ(get(db->get(), "merged"), above_put ? "0,1,1" : "1,1");
    EXPECT_TRUE((*db)->Flush({}).ok());
    EXPECT_EQ(get(db->get(), "merged"), above_put ? "0,1,1" : "1,1");
  }
}

// Goal: the same where closing flushes: what has no log is kept although the flush cannot be.
// Method: operands above a put in the log; opened without the operator, a write without a log, and
//         Close; then opened with the operator.
// Mutation: flushing before the log is written loses the write.
TEST(FacadeBadUse, CloseWithoutTheMergeOperator) {
  const Folder folder(Place::kMemory);
  const std::string path = folder / "db";
  const Given given = usual();
  Given without = given;
  without.family.merge_operator = nullptr;
  const auto open_at = [&](const Given& with, bool flush_at_close) {
    Options options = options_of(with, path);
    options.flush_at_close = flush_at_close;
    rocksdb::DB* opened = nullptr;
    const Status status = Rocks::Open(options, path, &opened);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::unique_ptr<rocksdb::DB>(opened);
  };
  auto db = open_at(given, /*flush_at_close=*/false);
  ASSERT_NE(db, nullptr);
  ASSERT_TRUE(db->Put(kWrite, "merged", "0").ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(db->Merge(kWrite, "merged", "1").ok());
  db.reset();
  db = open_at(without, /*flush_at_close=*/true);
  ASSERT_NE(db, nullptr);
  rocksdb::WriteOptions unlogged;
  unlogged.disableWAL = true;
  ASSERT_TRUE(db->Put(unlogged, "key", "value").ok());
  EXPECT_FALSE(db->Close().ok());
  db.reset();
  db = open_at(given, /*flush_at_close=*/false);
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(get(db.get(), "key"), "value");
  EXPECT_EQ(get(db.get(), "merged"), "0,1,1");
}

// Goal: a batch larger than the log may be is written whole, and the next writes go on.
// Method: a log of 4 MB; batches of 2, 6 and 20 MB, singly and twice in a row; all keys are read.
// Mutation: waiting for room that can never be hangs; so does giving the batch up half written.
TEST(FacadeBadUse, BatchLargerThanTheLog) {
  Given given = usual();
  given.memtable_bytes = 4 << 20;
  const auto db = open(given);
  int keys = 0;
  for (const int megabytes : {2, 6, 20, 20, 2}) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < megabytes; ++i) {
      ASSERT_TRUE(batch.Put(std::to_string(keys++), std::string(1 << 20, 'v')).ok());
    }
    const Status status = (*db)->Write(kWrite, &batch);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  for (int i = 0; i < keys; ++i) EXPECT_EQ(get(db->get(), std::to_string(i)).size(), 1u << 20);
}

// Goal: where there is no room, no_slowdown fails with Incomplete, and nothing is lost.
// Method: flushes are paused, so the log fills up; a write with no_slowdown; then flushes go on.
// Mutation: returning Busy, or waiting, fails.
TEST(FacadeBadUse, NoSlowdown) {
  Given given = usual();
  given.memtable_bytes = 4 << 20;
  const auto db = open(given);
  ASSERT_TRUE((*db)->PauseBackgroundWork().ok());
  rocksdb::WriteOptions options;
  options.no_slowdown = true;
  int written = 0;
  Status status;
  while (status.ok() && written < 100) {
    status = (*db)->Put(options, std::to_string(written), std::string(1 << 20, 'v'));
    written += status.ok() ? 1 : 0;
  }
  EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
  EXPECT_LT(written, 5);
  ASSERT_TRUE((*db)->ContinueBackgroundWork().ok());
  EXPECT_TRUE((*db)->Put(kWrite, "after", "1").ok());
  for (int i = 0; i < written; ++i) {
    EXPECT_EQ(get(db->get(), std::to_string(i)).size(), 1u << 20);
  }
}

// Goal: concurrent writers, readers, families that come and go, flushes and ingests do not disturb
//       each other.
// Method: threads of each for a while; each writer's last value is there at the end.
// Mutation: an unguarded registry fails under the thread sanitizer.
TEST(FacadeBadUse, ConcurrentUse) {
  const auto db = open();
  rocksdb::DB* const rocks = db->get();
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(rocks->Put(kWrite, "w" + std::to_string(writer), std::to_string(i)).ok());
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kRounds; ++i) {
      rocksdb::ReadOptions options;
      options.snapshot = rocks->GetSnapshot();
      std::string first;
      std::string again;
      const Status status = rocks->Get(options, "w0", &first);
      EXPECT_EQ(rocks->Get(options, "w0", &again).code(), status.code());
      EXPECT_EQ(first, again);
      rocks->ReleaseSnapshot(options.snapshot);
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; i < kRounds / 20; ++i) {
      rocksdb::ColumnFamilyHandle* handle = nullptr;
      ASSERT_TRUE(rocks->CreateColumnFamily(usual().family, "f" + std::to_string(i), &handle).ok());
      EXPECT_TRUE(rocks->Put(kWrite, handle, "a", "1").ok());
      EXPECT_TRUE(rocks->DropColumnFamily(handle).ok());
      std::string value;
      EXPECT_TRUE(rocks->Get({}, handle, "a", &value).ok());
      EXPECT_TRUE(rocks->DestroyColumnFamilyHandle(handle).ok());
      EXPECT_TRUE(rocks->Flush({}).ok());
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(get(rocks, "w0"), std::to_string(kRounds - 1));
  EXPECT_EQ(get(rocks, "w1"), std::to_string(kRounds - 1));
}

}  // namespace breccia::testing
