#include <gtest/gtest.h>
#include <rocksdb/slice_transform.h>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

void put(Db& db, const std::string& key, const std::string& value) {
  EXPECT_TRUE(db->Put(kWrite, key, value).ok());
}

/// Keys of both letters in the tree and above it, some deleted, some merged.
void fill(Db& db) {
  for (int i = 0; i < 20; ++i) put(db, "a" + std::to_string(i), "tree");
  for (int i = 0; i < 20; ++i) put(db, "b" + std::to_string(i), "tree");
  EXPECT_TRUE(db->Flush({}).ok());
  for (int i = 0; i < 20; i += 3) put(db, "a" + std::to_string(i), "log");
  for (int i = 1; i < 20; i += 4) EXPECT_TRUE(db->Delete(kWrite, "b" + std::to_string(i)).ok());
  for (int i = 0; i < 20; i += 5) {
    EXPECT_TRUE(db->Merge(kWrite, "b" + std::to_string(i), "more").ok());
  }
  EXPECT_TRUE(db->DeleteRange(kWrite, db->DefaultColumnFamily(), "a15", "a18").ok());
}

void note(Db& db, const std::string& what, rocksdb::Iterator* at) {
  db.note(what + " " + (at->Valid() ? at->key().ToString() + "=" + at->value().ToString() : "-"),
          at->status());
}

std::unique_ptr<rocksdb::Iterator> iterator(Db& db, const rocksdb::ReadOptions& options = {}) {
  return std::unique_ptr<rocksdb::Iterator>(db->NewIterator(options));
}

}  // namespace

// Goal: an iterator goes where RocksDB's goes, both ways, from any seek.
// Method: every seek function on many targets, each followed by steps that change direction.
// Mutation: forgetting a source when the direction changes fails.
TEST(FacadeIterators, Seeks) {
  expect_same([](Db& db) {
    fill(db);
    const auto at = iterator(db);
    note(db, "new", at.get());
    for (const char* target : {"", "a", "a0", "a15", "a155", "a2", "b", "b0", "b1", "b19", "z"}) {
      at->Seek(target);
      note(db, "seek", at.get());
      for (int i = 0; i < 3 && at->Valid(); ++i) at->Next();
      note(db, "next", at.get());
      for (int i = 0; i < 5 && at->Valid(); ++i) at->Prev();
      note(db, "prev", at.get());
      at->SeekForPrev(target);
      note(db, "for prev", at.get());
      for (int i = 0; i < 2 && at->Valid(); ++i) at->Prev();
      note(db, "prev", at.get());
      if (at->Valid()) at->Next();
      note(db, "next", at.get());
    }
    at->SeekToLast();
    note(db, "last", at.get());
    at->Next();
    note(db, "behind", at.get());
    at->SeekToFirst();
    note(db, "first", at.get());
    at->Prev();
    note(db, "before", at.get());
    std::string property;
    at->SeekToFirst();
    db.note("pinned", at->GetProperty("rocksdb.iterator.is-key-pinned", &property), property);
    db.note("no such", at->GetProperty("no such property", &property));
    std::string columns;
    for (const auto& column : at->columns()) {
      columns += column.name().ToString() + ":" + column.value().ToString() + " ";
    }
    db.note("columns " + columns);
  });
}

// Goal: bounds hold in both directions and for every seek.
// Method: all pairs of bounds among keys that are there, between keys, and beyond.
// Mutation: including the upper bound fails.
TEST(FacadeIterators, Bounds) {
  expect_same([](Db& db) {
    fill(db);
    const std::vector<std::string> bounds = {"", "a", "a14", "a16", "b", "b3", "b33", "c"};
    for (const std::string& lower : bounds) {
      for (const std::string& upper : bounds) {
        const Slice low(lower);
        const Slice high(upper);
        rocksdb::ReadOptions options;
        options.iterate_lower_bound = &low;
        options.iterate_upper_bound = &high;
        if (lower > upper) continue;
        db.note(lower + " to " + upper);
        db.scan("default", options);
        const auto at = iterator(db, options);
        for (const char* target : {"a", "a16", "b33"}) {
          // RocksDB says nothing of seeks beyond the bounds.
          if (target < lower || target >= upper) continue;
          at->Seek(target);
          note(db, "seek", at.get());
          at->SeekForPrev(target);
          note(db, "for prev", at.get());
        }
      }
    }
  });
}

// Goal: prefix iteration ends with the prefix.
// Method: a fixed prefix of one byte; same-as-start, total order and automatic mode.
// Mutation: going on to the next prefix fails.
TEST(FacadeIterators, Prefixes) {
  Given given = usual();
  given.family.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(1));
  expect_same(
      [](Db& db) {
        fill(db);
        for (int mode = 0; mode < 3; ++mode) {
          rocksdb::ReadOptions options;
          options.prefix_same_as_start = mode == 0;
          options.total_order_seek = mode == 1;
          options.auto_prefix_mode = mode == 2;
          const auto at = iterator(db, options);
          for (const char* target : {"a", "a19", "b", "b2"}) {
            for (at->Seek(target); at->Valid(); at->Next()) note(db, target, at.get());
            note(db, "end", at.get());
          }
        }
      },
      given);
}

// Goal: an iterator sees the moment of its making, Refresh() and tailing ones see the present.
// Method: writes, deletions and a flush under open iterators of each kind.
// Mutation: letting a plain iterator see a later write fails.
TEST(FacadeIterators, RefreshAndTailing) {
  expect_same([](Db& db) {
    put(db, "a", "1");
    const auto plain = iterator(db);
    rocksdb::ReadOptions options;
    options.tailing = true;
    const auto tailing = iterator(db, options);
    options = {};
    options.snapshot = db->GetSnapshot();
    const auto on_snapshot = iterator(db, options);
    for (int pass = 0; pass < 3; ++pass) {
      put(db, "b" + std::to_string(pass), "2");
      EXPECT_TRUE(db->Delete(kWrite, "a").ok());
      EXPECT_TRUE(pass != 1 || db->Flush({}).ok());
      for (plain->SeekToFirst(); plain->Valid(); plain->Next()) note(db, "plain", plain.get());
      for (tailing->Seek("a"); tailing->Valid(); tailing->Next()) {
        note(db, "tailing", tailing.get());
      }
      on_snapshot->SeekToFirst();
      note(db, "on snapshot", on_snapshot.get());
      db.note("refresh", plain->Refresh());
      db.note("refresh", on_snapshot->Refresh());
    }
    tailing->SeekToLast();
    note(db, "tailing last", tailing.get());
    tailing->SeekForPrev("b");
    note(db, "tailing for prev", tailing.get());
    tailing->SeekToFirst();
    note(db, "tailing first", tailing.get());
    tailing->Prev();
    note(db, "tailing prev", tailing.get());
    db->ReleaseSnapshot(options.snapshot);
  });
}

// Goal: NewIterators gives iterators over one moment; options that RocksDB refuses are refused.
// Method: two families in one order and the other; managed, persisted tier, timestamps.
// Mutation: returning fewer iterators than families fails.
TEST(FacadeIterators, Several) {
  Given given = usual();
  given.families = {"one"};
  expect_same(
      [](Db& db) {
        put(db, "a", "default");
        EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "b", "one").ok());
        std::vector<rocksdb::Iterator*> iterators;
        const std::vector<rocksdb::ColumnFamilyHandle*> handles = {db.handle("one"),
                                                                   db.handle("default")};
        db.note("several", db->NewIterators({}, handles, &iterators));
        put(db, "later", "1");
        for (rocksdb::Iterator* at : iterators) {
          for (at->SeekToFirst(); at->Valid(); at->Next()) note(db, "", at);
          delete at;
        }
        const Slice ts("12345678");
        for (int wrong = 0; wrong < 3; ++wrong) {
          rocksdb::ReadOptions options;
          options.managed = wrong == 0;
          if (wrong == 1) options.read_tier = rocksdb::kPersistedTier;
          if (wrong == 2) options.timestamp = &ts;
          db.note("wrong", iterator(db, options)->status());
          db.note("wrong", db->NewIterators(options, handles, &iterators));
        }
      },
      given);
}

// Goal: an iterator reads files only as its options allow.
// Method: kBlockCacheTier on a tree whose blocks are in no cache.
// Mutation: dropping the read tier on the way to the tree fails.
TEST(FacadeIterators, BlockCacheOnly) {
  Given given = usual();
  given.clean_bytes = 0;  // or it finds in memory what RocksDB reads from files
  expect_same(
      [](Db& db) {
        put(db, "a", "1");
        EXPECT_TRUE(db->Flush({}).ok());
        db.reopen();
        rocksdb::ReadOptions options;
        options.read_tier = rocksdb::kBlockCacheTier;
        const auto at = iterator(db, options);
        at->SeekToFirst();
        note(db, "first", at.get());
      },
      given);
}

}  // namespace breccia::testing
