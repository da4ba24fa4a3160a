#include <breccia/write_batch_with_index.h>
#include <gtest/gtest.h>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

/// What lies below a batch: in the tree, in the log, deleted, merged.
void fill(Db& db) {
  for (const char* key : {"tree", "both", "deleted", "merged"}) {
    EXPECT_TRUE(db->Put(kWrite, db.handle("one"), key, std::string("tree ") + key).ok());
  }
  EXPECT_TRUE(db->Flush({}, db.handle("one")).ok());
  EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "log", "log").ok());
  EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "both", "log both").ok());
  EXPECT_TRUE(db->Delete(kWrite, db.handle("one"), "deleted").ok());
  EXPECT_TRUE(db->Merge(kWrite, db.handle("one"), "merged", "log").ok());
}

template <class Batch>
void change(Db& db, Batch* batch) {
  auto* const one = db.handle("one");
  EXPECT_TRUE(batch->Put(one, "put", "batch").ok());
  EXPECT_TRUE(batch->Put(one, "both", "batch").ok());
  EXPECT_TRUE(batch->Delete(one, "tree").ok());
  EXPECT_TRUE(batch->SingleDelete(one, "log").ok());
  EXPECT_TRUE(batch->Merge(one, "merged", "batch").ok());
  EXPECT_TRUE(batch->Merge(one, "merged", "again").ok());
  EXPECT_TRUE(batch->Merge(one, "deleted", "batch").ok());
  EXPECT_TRUE(batch->Merge(one, "none", "batch").ok());
  EXPECT_TRUE(batch->Put(one, "stack", "batch").ok());
  EXPECT_TRUE(batch->Merge(one, "stack", "merged").ok());
  EXPECT_TRUE(batch->Put(one, "gone", "batch").ok());
  EXPECT_TRUE(batch->Delete(one, "gone").ok());
  EXPECT_TRUE(batch->Merge(one, "gone", "merged").ok());
}

const std::vector<std::string> kKeys = {"put",  "both",    "tree",  "log",  "merged",
                                        "none", "deleted", "stack", "gone", "never"};

/// Notes every read that a batch offers.
template <class Batch>
void note_reads(Db& db, Batch* batch, const rocksdb::ReadOptions& options) {
  auto* const one = db.handle("one");
  for (const std::string& key : kKeys) {
    std::string value;
    Status status = batch->GetFromBatchAndDB(db.get(), options, one, key, &value);
    db.note(key + " both", status, value);
    status = batch->GetFromBatch(one, db->GetDBOptions(), key, &value);
    db.note(key + " batch", status, value);
  }
  std::string value;
  const Status status = batch->GetFromBatchAndDB(db.get(), options, "put", &value);
  db.note("default family", status, value);
  const std::vector<Slice> keys(kKeys.begin(), kKeys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<Status> statuses(keys.size());
  batch->MultiGetFromBatchAndDB(db.get(), options, one, keys.size(), keys.data(), values.data(),
                                statuses.data(), false);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    db.note(kKeys[i] + " many", statuses[i], values[i].ToString());
  }
}

template <class Batch>
void read_and_write(Db& db) {
  for (const bool overwrite_key : {false, true}) {
    fill(db);
    rocksdb::ReadOptions old;
    old.snapshot = db->GetSnapshot();
    Batch batch(rocksdb::BytewiseComparator(), 0, overwrite_key);
    change(db, &batch);
    note_reads(db, &batch, {});
    EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "never", "later").ok());
    note_reads(db, &batch, old);
    note_reads(db, &batch, {});
    if (overwrite_key) {
      const std::unique_ptr<rocksdb::Iterator> at(
          batch.NewIteratorWithBase(db.handle("one"), db->NewIterator({}, db.handle("one"))));
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        db.note(at->key().ToString() + "=" + at->value().ToString());
      }
      db.note("end", at->status());
    }
    db.note("write", db->Write(kWrite, batch.GetWriteBatch()));
    db.scan("one");
    db->ReleaseSnapshot(old.snapshot);
    EXPECT_TRUE(db->DeleteRange(kWrite, db.handle("one"), "", "z").ok());
  }
}

Given one_family() {
  Given given = usual();
  given.families = {"one"};
  return given;
}

}  // namespace

// Goal: a batch with an index reads through to what lies in log and tree, merges included.
// Method: every kind of update over every kind of entry, with snapshots, overwriting or not;
// RocksDB's
//         class over RocksDB against ours over breccia.
// Mutation: RocksDB's own MultiGetFromBatchAndDB misses the log's entries.
TEST(FacadeWriteBatchWithIndex, ReadsThrough) {
  expect_same(
      [](Db& db) {
        if (db.is_breccia()) {
          read_and_write<WriteBatchWithIndex>(db);
        } else {
          read_and_write<rocksdb::WriteBatchWithIndex>(db);
        }
      },
      one_family());
}

// Goal: RocksDB's own class works with our database, but for the one function.
// Method: its other reads, with a handle of ours and merges that look into it.
// Mutation: a handle that librocksdb cannot ask for the merge operator crashes.
TEST(FacadeWriteBatchWithIndex, RocksDbsOwn) {
  expect_same(
      [](Db& db) {
        fill(db);
        rocksdb::WriteBatchWithIndex batch;
        change(db, &batch);
        for (const std::string& key : kKeys) {
          std::string value;
          const Status status =
              batch.GetFromBatchAndDB(db.get(), {}, db.handle("one"), key, &value);
          db.note(key, status, value);
        }
      },
      one_family());
}

// Goal: without a merge operator the operands of a batch are an error of their keys alone.
// Method: a batch with one put and one operand; the code is RocksDB's.
// Mutation: failing all keys fails.
TEST(FacadeWriteBatchWithIndex, NoMergeOperator) {
  Given given = one_family();
  given.family.merge_operator = nullptr;
  const auto script = [](Db& db, auto* batch) {
    auto* const one = db.handle("one");
    EXPECT_TRUE(batch->Put(one, "a", "1").ok());
    EXPECT_TRUE(batch->Merge(one, "b", "1").ok());
    const std::vector<Slice> keys = {"a", "b"};
    std::vector<rocksdb::PinnableSlice> values(2);
    std::vector<Status> statuses(2);
    batch->MultiGetFromBatchAndDB(db.get(), {}, one, 2, keys.data(), values.data(), statuses.data(),
                                  false);
    for (std::size_t i = 0; i < 2; ++i) db.note("many", statuses[i], values[i].ToString());
  };
  expect_same(
      [&](Db& db) {
        if (db.is_breccia()) {
          WriteBatchWithIndex batch;
          script(db, &batch);
        } else {
          rocksdb::WriteBatchWithIndex batch;
          script(db, &batch);
        }
      },
      given);
}

// Goal: what a transaction or a batch with an index merges does not turn the entry cache off.
// Method: an entry of the tree is read twice, which the cache answers the second time; merges are
//         read through a batch in each way; then the entry is read again.
// Mutation: reading through RocksDB's own GetFromBatchAndDB, which asks for the tree, fails.
TEST(FacadeWriteBatchWithIndex, KeepsTheEntryCache) {
  Given given = usual();
  given.clean_bytes = 0;
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->Put(kWrite, "key", "tree").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  const auto hits = [&] {
    std::string figure;
    EXPECT_TRUE(db->GetProperty("breccia.entry-cache.hits", &figure));
    return std::stoull(figure);
  };
  std::string value;
  const auto get = [&] { EXPECT_TRUE(db->Get({}, "key", &value).ok()); };
  // An entry comes into the cache when it is asked for again.
  for (int i = 0; i < 4; ++i) get();
  const std::uint64_t before = hits();
  get();
  ASSERT_EQ(hits(), before + 1);
  WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, /*overwrite_key=*/true);
  ASSERT_TRUE(batch.Merge("key", "batch").ok());
  ASSERT_TRUE(batch.GetFromBatchAndDB(db.get(), {}, "key", &value).ok());
  EXPECT_EQ(value, "tree,batch");
  const Slice key = "key";
  rocksdb::PinnableSlice pinned;
  ASSERT_TRUE(batch.GetFromBatchAndDB(db.get(), {}, key, &pinned).ok());
  EXPECT_EQ(pinned, "tree,batch");
  Status status;
  batch.MultiGetFromBatchAndDB(db.get(), {}, nullptr, 1, &key, &pinned, &status, true);
  EXPECT_EQ(pinned, "tree,batch");
  {
    const std::unique_ptr<rocksdb::Iterator> at(
        batch.NewIteratorWithBase(db->DefaultColumnFamily(), db->NewIterator({})));
    at->Seek("key");
    ASSERT_TRUE(at->Valid());
    EXPECT_EQ(at->value(), "tree,batch");
  }
  const std::uint64_t after = hits();
  get();
  EXPECT_EQ(hits(), after + 1);
}

}  // namespace breccia::testing
