#include <breccia/rocks.h>
#include <gtest/gtest.h>
#include <rocksdb/statistics.h>
#include <rocksdb/write_batch.h>

#include "both.h"
#include "facade/db/core.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

Given two_families() {
  Given given = usual();
  given.families = {"one", "two"};
  return given;
}

void get_all(Db& db, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) db.get(key);
}

}  // namespace

// Goal: single writes mean what they mean in RocksDB, with and without a handle.
// Method: each function on keys with and without a value; gets, scans, the same after a flush.
// Mutation: SingleDelete written as a put fails.
TEST(FacadeWrites, PutDeleteSingleDelete) {
  expect_same(
      [](Db& db) {
        db.note("put", db->Put(kWrite, "a", "1"));
        db.note("put cf", db->Put(kWrite, db.handle("one"), "a", "one"));
        db.note("empty", db->Put(kWrite, "", ""));
        db.note("binary", db->Put(kWrite, Slice("\0\xff", 2), Slice("\0", 1)));
        db.note("delete", db->Delete(kWrite, "a"));
        db.note("delete none", db->Delete(kWrite, "none"));
        db.note("delete cf", db->Delete(kWrite, db.handle("two"), "a"));
        db.note("put", db->Put(kWrite, "s", "1"));
        db.note("put", db->Put(kWrite, db.handle("one"), "s", "1"));
        db.note("single", db->SingleDelete(kWrite, "s"));
        db.note("single cf", db->SingleDelete(kWrite, db.handle("one"), "s"));
        for (int pass = 0; pass < 2; ++pass) {
          get_all(db, {"a", "", std::string("\0\xff", 2), "none", "s"});
          db.get("one", "a");
          for (const char* family : {"default", "one", "two"}) db.scan(family);
          db.note("flush", db->Flush({}));
        }
      },
      two_families());
}

// Goal: a range deletion hides what is older, in memory and below, and nothing newer.
// Method: puts, range deletions and puts again around a flush; an empty range, one the wrong way.
// Mutation: leaving the tree's entries visible fails the second pass.
TEST(FacadeWrites, DeleteRange) {
  expect_same([](Db& db) {
    for (int pass = 0; pass < 3; ++pass) {
      for (char c = 'a'; c <= 'h'; ++c) {
        db.note("put", db->Put(kWrite, std::string(1, c), std::to_string(pass)));
      }
      if (pass == 1) db.note("flush", db->Flush({}));
      auto* const family = db->DefaultColumnFamily();
      db.note("range", db->DeleteRange(kWrite, family, "c", "f"));
      db.note("empty", db->DeleteRange(kWrite, family, "a", "a"));
      db.note("put", db->Put(kWrite, "d", "again"));
      db.scan();
      get_all(db, {"b", "c", "d", "e", "f"});
    }
    db.reopen();
    db.scan();
    // Last: it turns RocksDB read-only.
    db.note("backward", db->DeleteRange(kWrite, db->DefaultColumnFamily(), "f", "c"));
  });
}

// Goal: merges are applied in order on whatever is below, wherever that lies.
// Method: operands above nothing, a put, a deletion, a range deletion; flushes between; no
//          operator.
// Mutation: dropping the operand that came before the flush fails.
TEST(FacadeWrites, Merge) {
  expect_same([](Db& db) {
    db.note("merge", db->Merge(kWrite, "none", "1"));
    db.note("put", db->Put(kWrite, "put", "0"));
    db.note("merge", db->Merge(kWrite, db->DefaultColumnFamily(), "put", "1"));
    db.note("put", db->Put(kWrite, "deleted", "0"));
    db.note("delete", db->Delete(kWrite, "deleted"));
    db.note("merge", db->Merge(kWrite, "deleted", "1"));
    for (int pass = 0; pass < 3; ++pass) {
      db.scan();
      get_all(db, {"none", "put", "deleted"});
      if (pass == 1) db.reopen();
      db.note("flush", db->Flush({}));
      for (const char* key : {"none", "put", "deleted"}) {
        db.note("merge", db->Merge(kWrite, key, "p" + std::to_string(pass)));
      }
    }
  });
  Given without = usual();
  without.family.merge_operator = nullptr;
  expect_same([](Db& db) { db.note("merge", db->Merge(kWrite, "a", "1")); }, without);
}

// Goal: a batch with an operand that has no operator does nothing, and writing goes on. RocksDB
//       writes what stands before the operand, and nothing any more from then on.
// Method: such a batch over memtable and runs, then another write.
// Mutation: without the check the operand is written, and its key cannot be read.
TEST(FacadeWrites, OperandWithoutOperator) {
  for (const std::uint32_t run_requests_min : {0, 1}) {
    Given given = usual();
    given.family.merge_operator = nullptr;
    given.run_requests_min = run_requests_min;
    Db db(Kind::kBreccia, given);
    ASSERT_TRUE(db.open().ok());
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(batch.Put("before", "1").ok());
    EXPECT_TRUE(batch.Merge("a", "1").ok());
    EXPECT_TRUE(db->Write(kWrite, &batch).IsNotSupported());
    std::string value;
    EXPECT_TRUE(db->Get({}, "before", &value).IsNotFound());
    EXPECT_TRUE(db->Get({}, "a", &value).IsNotFound());
    EXPECT_TRUE(db->Put(kWrite, "after", "1").ok());
  }
}

// Goal: a batch is written whole, in its order, over all families.
// Method: a batch with every kind of record, blobs for the log and save points; then an empty one,
// one
//         for a family that is not there with and without ignoring that, and none at all.
// Mutation: applying a rolled-back record fails; so does refusing PutLogData.
TEST(FacadeWrites, WriteBatch) {
  expect_same(
      [](Db& db) {
        rocksdb::WriteBatch batch;
        EXPECT_TRUE(batch.Put("a", "1").ok());
        EXPECT_TRUE(batch.Put(db.handle("one"), "a", "one").ok());
        EXPECT_TRUE(batch.PutLogData("blob").ok());
        EXPECT_TRUE(batch.Merge(db.handle("one"), "a", "more").ok());
        EXPECT_TRUE(batch.Put("b", "1").ok());
        EXPECT_TRUE(batch.Put("c", "1").ok());
        EXPECT_TRUE(batch.DeleteRange("b", "d").ok());
        EXPECT_TRUE(batch.Put("c", "2").ok());
        EXPECT_TRUE(batch.SingleDelete("c").ok());
        EXPECT_TRUE(batch.Delete(db.handle("two"), "a").ok());
        batch.SetSavePoint();
        EXPECT_TRUE(batch.Put("rolled back", "1").ok());
        EXPECT_TRUE(batch.RollbackToSavePoint().ok());
        db.note("write", db->Write(kWrite, &batch));
        rocksdb::WriteBatch empty;
        db.note("empty", db->Write(kWrite, &empty));
        rocksdb::WriteOptions sync;
        sync.sync = true;
        db.note("empty sync", db->Write(sync, &empty));
        db.note("null", db->Write(kWrite, nullptr));
        for (const char* family : {"default", "one", "two"}) db.scan(family);
        db.reopen();
        for (const char* family : {"default", "one", "two"}) db.scan(family);
      },
      two_families());
}

// Goal: a write for a family that was dropped fails, or is left out if the caller says so.
// Method: batches and single writes by the handle of a dropped family.
// Mutation: not looking at ignore_missing_column_families fails.
TEST(FacadeWrites, MissingFamily) {
  expect_same(
      [](Db& db) {
        db.note("drop", db->DropColumnFamily(db.handle("one")));
        rocksdb::WriteBatch batch;
        EXPECT_TRUE(batch.Put("a", "1").ok());
        EXPECT_TRUE(batch.Put(db.handle("one"), "a", "one").ok());
        rocksdb::WriteOptions ignore;
        ignore.ignore_missing_column_families = true;
        db.note("ignore", db->Write(ignore, &batch));
        db.note("ignore", db->Put(ignore, db.handle("one"), "b", "1"));
        db.scan();
        db.scan("one");
        // Last: it turns RocksDB read-only.
        db.note("put", db->Put(kWrite, db.handle("one"), "a", "1"));
      },
      two_families());
}

// Goal: a write that may leave out missing families is not lost to a drop that fails.
// Method: the family's state while it is being dropped; writes singly and in a batch; the drop is
//         taken back, and both are read.
// Mutation: leaving out what is only about to be dropped loses them.
TEST(FacadeWrites, MissingFamilyAndADropThatFails) {
  Db db(Kind::kBreccia, two_families());
  ASSERT_TRUE(db.open().ok());
  auto* const one = db.handle("one");
  facade::Family& family = *static_cast<facade::Handle*>(one)->family();
  family.drop(static_cast<Rocks*>(db.get())->core().engine().pin());
  rocksdb::WriteOptions ignore;
  ignore.ignore_missing_column_families = true;
  EXPECT_TRUE(db->Put(ignore, one, "single", "1").ok());
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(batch.Put(one, "batch", "1").ok());
  EXPECT_TRUE(db->Write(ignore, &batch).ok());
  family.keep();
  for (const char* key : {"single", "batch"}) {
    std::string value;
    EXPECT_TRUE(db->Get({}, one, key, &value).ok()) << key;
  }
}

// Goal: write options are checked like RocksDB's.
// Method: combinations that RocksDB refuses; sync, no log, low priority, no slowdown.
// Mutation: taking sync together with disableWAL fails.
TEST(FacadeWrites, WriteOptions) {
  expect_same([](Db& db) {
    rocksdb::WriteOptions options;
    options.sync = true;
    db.note("sync", db->Put(options, "a", "1"));
    options.disableWAL = true;
    db.note("sync without log", db->Put(options, "b", "1"));
    options.sync = false;
    db.note("no log", db->Put(options, "c", "1"));
    options.rate_limiter_priority = rocksdb::Env::IO_USER;
    db.note("rate limiter", db->Put(options, "d", "1"));
    options = {};
    options.rate_limiter_priority = rocksdb::Env::IO_LOW;
    db.note("rate limiter", db->Put(options, "e", "1"));
    options = {};
    options.no_slowdown = true;
    options.low_pri = true;
    db.note("no slowdown", db->Put(options, "f", "1"));
    options.protection_bytes_per_key = 8;
    db.note("protection", db->Put(options, "g", "1"));
    options.protection_bytes_per_key = 7;
    rocksdb::WriteBatch batch;
    db.note("protection", db->Write(options, &batch));
    db.scan();
    db.reopen();
    db.scan();
  });
}

// Goal: functions for timestamps and wide columns fail with a code and change nothing.
// Method: all of them.
// Mutation: handing one to the tree would write past the log; the scan would show it.
TEST(FacadeWrites, TimestampsAndEntities) {
  expect_same([](Db& db) {
    auto* const family = db->DefaultColumnFamily();
    const Slice ts("12345678");
    db.note("put", db->Put(kWrite, family, "a", ts, "1"));
    db.note("put", db->Put(kWrite, "a", ts, "1"));
    db.note("delete", db->Delete(kWrite, family, "a", ts));
    db.note("single", db->SingleDelete(kWrite, family, "a", ts));
    db.note("range", db->DeleteRange(kWrite, family, "a", "b", ts));
    db.note("merge", db->Merge(kWrite, family, "a", ts, "1"));
    db.scan();
  });
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  const rocksdb::WideColumns columns{{"name", "value"}};
  EXPECT_TRUE(db->PutEntity(kWrite, db->DefaultColumnFamily(), "a", columns).IsNotSupported());
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(batch.Put("a", "1").ok());
  ASSERT_TRUE(batch.PutEntity(db->DefaultColumnFamily(), "b", columns).ok());
  EXPECT_TRUE(db->Write(kWrite, &batch).IsNotSupported());
  std::string value;
  EXPECT_TRUE(db->Get({}, "a", &value).IsNotFound());
}

// Goal: RocksDB's counters of writes count ours.
// Method: tickers after a batch, a put and a write without a log.
// Mutation: not counting keys fails.
TEST(FacadeWrites, Statistics) {
  const auto script = [](Db& db) {
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(batch.Put("a", "1").ok());
    EXPECT_TRUE(batch.Delete("b").ok());
    EXPECT_TRUE(db->Write(kWrite, &batch).ok());
    EXPECT_TRUE(db->Put(kWrite, "c", "1").ok());
    rocksdb::WriteOptions no_log;
    no_log.disableWAL = true;
    EXPECT_TRUE(db->Put(no_log, "d", "1").ok());
    const rocksdb::Statistics& statistics = *db->GetDBOptions().statistics;
    for (const auto ticker :
         {rocksdb::NUMBER_KEYS_WRITTEN, rocksdb::WRITE_DONE_BY_SELF, rocksdb::WRITE_WITH_WAL}) {
      db.note(std::to_string(ticker) + " " + std::to_string(statistics.getTickerCount(ticker)));
    }
    EXPECT_GT(statistics.getTickerCount(rocksdb::BYTES_WRITTEN), 0u);
    EXPECT_TRUE(db->GetDBOptions().statistics->Reset().ok());
  };
  Given given = usual();
  given.db.statistics = rocksdb::CreateDBStatistics();
  expect_same(script, given);
}

// Goal: a batch in breccia's own form does what the same calls do, with RocksDB's options.
// Method: writes, lookups and ranges over two families; options that RocksDB refuses.
// Mutation: a submit that skips the options' checks, or counts no keys, fails.
TEST(FacadeWrites, Submit) {
  Given given = usual();
  given.families = {"one"};
  given.db.statistics = rocksdb::CreateDBStatistics();
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  auto* const rocks = static_cast<Rocks*>(db.get());
  const FamilyId one = db.handle("one")->GetID();
  Batch batch = rocks->NewBatch();
  ASSERT_TRUE(batch.Put("a", "1").ok());
  ASSERT_TRUE(batch.Put(one, "b", "2").ok());
  ASSERT_TRUE(batch.Get("b").ok());
  ASSERT_TRUE(batch.Get(one, "b").ok());
  ASSERT_TRUE(batch.Range("", "z", 10).ok());
  rocksdb::WriteOptions refused;
  refused.sync = true;
  refused.disableWAL = true;
  EXPECT_TRUE(rocks->Submit(refused, &batch).IsInvalidArgument());
  std::string value;
  EXPECT_TRUE(db->Get({}, "a", &value).IsNotFound());
  ASSERT_TRUE(rocks->Submit({}, &batch).ok());
  EXPECT_EQ(batch.code(0), Status::kNotFound);
  EXPECT_EQ(batch.value(1).ToString(), "2");
  ASSERT_EQ(batch.range_size(0), 1U);
  EXPECT_EQ(batch.range_entry(0, 0).second.ToString(), "1");
  EXPECT_TRUE(db->Get({}, "a", &value).ok());
  EXPECT_EQ(given.db.statistics->getTickerCount(rocksdb::NUMBER_KEYS_WRITTEN), 2U);
}

}  // namespace breccia::testing
