#include <gtest/gtest.h>
#include <rocksdb/table.h>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

/// Values in the tree, whose files are in no cache, in the log, in both, deleted ones, merges.
void fill(Db& db) {
  for (const char* key : {"tree", "both", "deleted", "merged"}) {
    EXPECT_TRUE(db->Put(kWrite, key, std::string("tree ") + key).ok());
    EXPECT_TRUE(db->Put(kWrite, db.handle("one"), key, std::string("one ") + key).ok());
  }
  EXPECT_TRUE(db->Flush({}).ok());
  EXPECT_TRUE(db->Flush({}, db.handle("one")).ok());
  db.reopen();
  EXPECT_TRUE(db->Put(kWrite, "log", "log").ok());
  EXPECT_TRUE(db->Put(kWrite, "both", "log both").ok());
  EXPECT_TRUE(db->Delete(kWrite, "deleted").ok());
  EXPECT_TRUE(db->Merge(kWrite, "merged", "more").ok());
}

const std::vector<std::string> kKeys = {"merged",  "tree",  "log", "both",
                                        "deleted", "never", "tree"};

std::vector<Slice> key_slices() { return {kKeys.begin(), kKeys.end()}; }

Given one_family() {
  Given given = usual();
  given.families = {"one"};
  given.clean_bytes = 0;  // or lookups find in memory what RocksDB reads from files
  return given;
}

/// Notes what a batched MultiGet says.
void note_all(Db& db, const std::vector<rocksdb::PinnableSlice>& values,
              const std::vector<Status>& statuses) {
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    db.note(std::to_string(i), statuses[i], values[i].ToString());
  }
}

}  // namespace

// Goal: every overload of Get finds what RocksDB finds.
// Method: the same keys by string, by PinnableSlice, with a timestamp to fill, as an entity.
// Mutation: looking only into the tree, or only above it, fails.
TEST(FacadeReads, Get) {
  expect_same(
      [](Db& db) {
        fill(db);
        for (const std::string& key : kKeys) {
          db.get(key);
          db.get("one", key);
          rocksdb::PinnableSlice pinned;
          std::string timestamp = "before";
          auto* const family = db->DefaultColumnFamily();
          Status status = db->Get({}, family, key, &pinned);
          db.note("pinned", status, pinned.ToString());
          status = db->Get({}, family, key, &pinned);
          db.note("again", status, pinned.ToString());
          status = db->Get({}, family, key, &pinned, &timestamp);
          db.note("timestamp '" + timestamp + "'", status, pinned.ToString());
          if (key == "merged") continue;  // RocksDB gives no columns for merges in its memtable
          rocksdb::PinnableWideColumns columns;
          const Status entity = db->GetEntity({}, family, key, &columns);
          std::string entity_is;
          for (const auto& column : columns.columns()) {
            entity_is += column.name().ToString() + ":" + column.value().ToString() + " ";
          }
          db.note("entity", entity, entity_is);
        }
        rocksdb::PinnableWideColumns columns;
        db.note("null", db->GetEntity({}, nullptr, "a", &columns));
        db.note("null", db->GetEntity({}, db->DefaultColumnFamily(), "a", nullptr));
      },
      one_family());
}

// Goal: all overloads of MultiGet give the same as single lookups, duplicates included.
// Method: both vector forms, both batched forms, each with and without timestamps; no keys at all.
// Mutation: giving the results in key order fails.
TEST(FacadeReads, MultiGet) {
  expect_same(
      [](Db& db) {
        fill(db);
        const std::vector<Slice> keys = key_slices();
        const std::size_t n = keys.size();
        auto* const one = db.handle("one");
        std::vector<rocksdb::ColumnFamilyHandle*> handles(n, one);
        handles[1] = handles[3] = db.handle("default");
        std::vector<std::string> found;
        std::vector<std::string> timestamps(n, "before");
        const auto note = [&](const std::vector<Status>& statuses) {
          for (std::size_t i = 0; i < n; ++i) db.note(std::to_string(i), statuses[i], found[i]);
        };
        note(db->MultiGet({}, keys, &found));
        note(db->MultiGet({}, handles, keys, &found));
        note(db->MultiGet({}, keys, &found, &timestamps));
        note(db->MultiGet({}, handles, keys, &found, &timestamps));
        std::vector<rocksdb::PinnableSlice> values(n);
        std::vector<Status> statuses(n);
        db->MultiGet({}, one, n, keys.data(), values.data(), statuses.data());
        note_all(db, values, statuses);
        db->MultiGet({}, one, n, keys.data(), values.data(), timestamps.data(), statuses.data());
        note_all(db, values, statuses);
        db->MultiGet({}, n, handles.data(), keys.data(), values.data(), statuses.data());
        note_all(db, values, statuses);
        db->MultiGet({}, n, handles.data(), keys.data(), values.data(), timestamps.data(),
                     statuses.data());
        note_all(db, values, statuses);
        db->MultiGet({}, one, 0, keys.data(), values.data(), statuses.data());
        db.note("none", Status::OK(), std::to_string(db->MultiGet({}, {}, &found).size()));
      },
      one_family());
}

// Goal: many keys in one call are one batch, and their values live as long as they are held.
// Method: 2,000 keys, half in the tree; one value is kept beyond all others and the next call.
// Mutation: freeing the batch with the first value that is reset fails under the address sanitizer.
TEST(FacadeReads, LargeMultiGet) {
  expect_same([](Db& db) {
    std::vector<std::string> names;
    for (int i = 0; i < 2000; ++i) {
      names.push_back("key" + std::to_string(i * 7919 % 2000));
      const bool is_written = i % 3 != 0;
      EXPECT_TRUE(!is_written || db->Put(kWrite, names.back(), std::to_string(i)).ok());
      EXPECT_TRUE(i != 1000 || db->Flush({}).ok());
    }
    const std::vector<Slice> keys(names.begin(), names.end());
    rocksdb::PinnableSlice kept;
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<rocksdb::PinnableSlice> values(keys.size());
      std::vector<Status> statuses(keys.size());
      db->MultiGet({}, db->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                   statuses.data());
      note_all(db, values, statuses);
      kept = std::move(values[1]);
    }
    db.note("kept " + kept.ToString());
  });
}

// Goal: value_size_soft_limit ends a MultiGet where RocksDB ends it.
// Method: three values of 10 bytes and limits around their sum; vector and batched form.
// Mutation: counting in the other order fails.
TEST(FacadeReads, SoftLimit) {
  expect_same([](Db& db) {
    for (const char* key : {"c", "a", "b"}) {
      EXPECT_TRUE(db->Put(kWrite, key, std::string(10, key[0])).ok());
    }
    const std::vector<Slice> keys = {"c", "none", "a", "b"};
    for (const std::uint64_t limit : {0, 9, 10, 19, 20, 29, 30}) {
      rocksdb::ReadOptions options;
      options.value_size_soft_limit = limit;
      std::vector<std::string> found;
      const std::vector<Status> in_order = db->MultiGet(options, keys, &found);
      for (const Status& status : in_order) db.note("in order", status);
      std::vector<rocksdb::PinnableSlice> values(keys.size());
      std::vector<Status> statuses(keys.size());
      db->MultiGet(options, db->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                   statuses.data());
      note_all(db, values, statuses);
    }
  });
}

// Goal: read tiers and the other options of lookups.
// Method: block cache only, before and after the blocks are in it; persisted only, with writes
//         without a log; checksums, cache and deadlines.
// Mutation: reading a file for kBlockCacheTier, or memory for kPersistedTier, fails.
TEST(FacadeReads, ReadOptions) {
  expect_same(
      [](Db& db) {
        fill(db);
        rocksdb::ReadOptions cached;
        cached.read_tier = rocksdb::kBlockCacheTier;
        for (const char* key : {"log", "deleted", "both", "tree", "merged"}) {
          db.get(key, cached);
        }
        rocksdb::ReadOptions other;
        other.verify_checksums = false;
        other.fill_cache = false;
        for (const std::string& key : kKeys) db.get(key, other);
        for (const std::string& key : kKeys) db.get(key);
        for (const std::string& key : kKeys) db.get(key, cached);
        const std::vector<Slice> keys = key_slices();
        std::vector<std::string> found;
        for (const Status& status : db->MultiGet(cached, keys, &found)) db.note("many", status);
        rocksdb::ReadOptions persisted;
        persisted.read_tier = rocksdb::kPersistedTier;
        for (const std::string& key : kKeys) db.get(key, persisted);
        rocksdb::WriteOptions no_log;
        no_log.disableWAL = true;
        EXPECT_TRUE(db->Put(no_log, "tree", "unlogged").ok());
        db.get("tree", persisted);
        for (const Status& status : db->MultiGet(persisted, keys, &found)) db.note("many", status);
        const Slice ts("12345678");
        rocksdb::ReadOptions timestamp;
        timestamp.timestamp = &ts;
        db.get("tree", timestamp);
        for (const Status& status : db->MultiGet(timestamp, keys, &found)) db.note("many", status);
      },
      one_family());
}

// Goal: KeyMayExist never denies a key that is there, and finds values without reading files.
// Method: all overloads, with the tree's blocks out of and in the cache.
// Mutation: answering false for a key whose block is not in the cache fails.
TEST(FacadeReads, KeyMayExist) {
  expect_same(
      [](Db& db) {
        fill(db);
        for (int pass = 0; pass < 2; ++pass) {
          for (const std::string& key : kKeys) {
            std::string value;
            std::string timestamp;
            bool found = false;
            auto* const family = db->DefaultColumnFamily();
            for (const bool may : {db->KeyMayExist({}, key, &value, &found),
                                   db->KeyMayExist({}, family, key, &value, &found),
                                   db->KeyMayExist({}, key, &value, &timestamp, &found)}) {
              db.note(key + (may ? " may " : " no ") + (may && found ? value : ""));
            }
          }
          for (const std::string& key : kKeys) db.get(key);
        }
      },
      one_family());
}

// Goal: merge operands are what was merged, a value below them first.
// Method: operands in memory, on a put, on a deletion, in the tree; too little room.
// Mutation: giving them newest first fails.
TEST(FacadeReads, MergeOperands) {
  expect_same([](Db& db) {
    EXPECT_TRUE(db->Put(kWrite, "tree", "base").ok());
    EXPECT_TRUE(db->Merge(kWrite, "one in tree", "1").ok());
    EXPECT_TRUE(db->Put(kWrite, "covered", "base").ok());
    EXPECT_TRUE(db->Flush({}).ok());
    EXPECT_TRUE(db->DeleteRange(kWrite, db->DefaultColumnFamily(), "covered", "covered2").ok());
    EXPECT_TRUE(db->Put(kWrite, "put", "base").ok());
    EXPECT_TRUE(db->Put(kWrite, "deleted", "base").ok());
    EXPECT_TRUE(db->Delete(kWrite, "deleted").ok());
    for (const char* key : {"tree", "one in tree", "covered", "put", "deleted", "none"}) {
      for (const char* operand : {"x", "y"}) EXPECT_TRUE(db->Merge(kWrite, key, operand).ok());
    }
    EXPECT_TRUE(db->Put(kWrite, "plain", "value").ok());
    EXPECT_TRUE(db->Delete(kWrite, "gone").ok());
    for (const char* key :
         {"tree", "one in tree", "covered", "put", "deleted", "none", "plain", "gone", "never"}) {
      for (const int room : {0, 2, 3}) {
        rocksdb::GetMergeOperandsOptions options;
        options.expected_max_number_of_operands = room;
        std::vector<rocksdb::PinnableSlice> operands(3);
        int count = -1;
        const Status status = db->GetMergeOperands({}, db->DefaultColumnFamily(), key,
                                                   operands.data(), &options, &count);
        std::string list = std::to_string(status.IsNotFound() ? -1 : count);
        for (int i = 0; status.ok() && i < count; ++i) list += " " + operands[i].ToString();
        db.note(std::string(key) + " " + list, status);
      }
    }
  });
}

}  // namespace breccia::testing
