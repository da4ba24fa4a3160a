#include <breccia/rocks.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

Given two_families() {
  Given given = usual();
  given.families = {"one", "two"};
  return given;
}

void note_list(Db& db) {
  std::vector<std::string> names;
  const Status status = db.is_breccia()
                            ? Rocks::ListColumnFamilies(db.given().db, db.path(), &names)
                            : rocksdb::DB::ListColumnFamilies(db.given().db, db.path(), &names);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) db.note("family " + name, status);
}

}  // namespace

// Goal: families come and go as in RocksDB, and a list shows the user's alone.
// Method: create, create again, several at once, drop, drop again, drop the default one, list,
//          reopen.
// Mutation: listing the hidden family fails.
TEST(FacadeFamilies, CreateAndDrop) {
  expect_same(
      [](Db& db) {
        note_list(db);
        db.note("create", db.create("three"));
        db.note("again", db.create("three"));
        EXPECT_TRUE(db->Put(kWrite, db.handle("three"), "a", "1").ok());
        std::vector<rocksdb::ColumnFamilyHandle*> handles;
        db.note("several", db->CreateColumnFamilies(db.given().family, {"four", "five"}, &handles));
        db.note("drop", db->DropColumnFamilies(handles));
        for (auto* handle : handles) db.note("destroy", db->DestroyColumnFamilyHandle(handle));
        const std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {
            {"six", db.given().family}, {"six", db.given().family}, {"seven", db.given().family}};
        db.note("stops", db->CreateColumnFamilies(descriptors, &handles));
        db.note("made " + std::to_string(handles.size()));
        db.note("drop", db->DropColumnFamily(handles[0]));
        db.note("drop again", db->DropColumnFamily(handles[0]));
        db.note("destroy", db->DestroyColumnFamilyHandle(handles[0]));
        db.note("drop default", db->DropColumnFamily(db->DefaultColumnFamily()));
        db.note("destroy", db->DestroyColumnFamilyHandle(db->DefaultColumnFamily()));
        db.note("drop", db->DropColumnFamily(db.handle("one")));
        db.destroy("one");
        note_list(db);
        db.reopen();
        note_list(db);
        db.scan("three");
      },
      two_families());
}

// Goal: what a handle says of its family.
// Method: name, number, comparator, descriptor of opened and created families.
// Mutation: showing triggers multiplied by the files of a flush fails.
TEST(FacadeFamilies, Handles) {
  Given given = two_families();
  given.family.level0_file_num_compaction_trigger = 5;
  expect_same(
      [](Db& db) {
        EXPECT_TRUE(db.create("three").ok());
        for (const char* name : {"default", "one", "three"}) {
          auto* const handle = db.handle(name);
          db.note(handle->GetName() + " " + handle->GetComparator()->Name());
          rocksdb::ColumnFamilyDescriptor descriptor;
          db.note("descriptor", handle->GetDescriptor(&descriptor), descriptor.name);
          db.note(std::to_string(descriptor.options.level0_file_num_compaction_trigger));
          db.note(std::to_string(db->Level0StopWriteTrigger(handle)));
          db.note(handle->GetID() == 0 ? "first" : "another");
        }
        db.note(db->DefaultColumnFamily()->GetName());
      },
      given);
}

// Goal: a family is read to its last entry also in the moment in which it is dropped.
// Method: an entry in tree and one in the log; flushes beside the drop, and threads that read both
//         all the time, singly, as a batch, by an iterator that is refreshed and by a tailing one.
// Mutation: going to what was kept only after the drop, or marking the view behind a flush that
//           left the family out, loses entries within some rounds; so does, in some runs, an
//           iterator that takes its pin after it has looked for the drop.
TEST(FacadeFamilies, ConcurrentDropFlushAndReads) {
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = "family " + std::to_string(round);
    ASSERT_TRUE(db.create(name).ok());
    auto* const handle = db.handle(name);
    ASSERT_TRUE(db->Put(kWrite, handle, "tree", "1").ok());
    ASSERT_TRUE(db->Flush({}).ok());
    ASSERT_TRUE(db->Put(kWrite, handle, "log", "1").ok());
    std::atomic<bool> over{false};
    std::atomic<int> started{0};
    std::thread reader([&] {
      ++started;
      while (!over.load()) {
        std::string value;
        EXPECT_TRUE(db->Get({}, handle, "log", &value).ok()) << round;
        EXPECT_TRUE(db->Get({}, handle, "tree", &value).ok()) << round;
        std::vector<std::string> values;
        const auto statuses = db->MultiGet({}, {handle, handle}, {"tree", "log"}, &values);
        EXPECT_TRUE(statuses[0].ok() && statuses[1].ok()) << round;
      }
    });
    std::thread walker([&] {
      rocksdb::ReadOptions tailing;
      tailing.tailing = true;
      const std::unique_ptr<rocksdb::Iterator> refreshed(db->NewIterator({}, handle));
      const std::unique_ptr<rocksdb::Iterator> tail(db->NewIterator(tailing, handle));
      ++started;
      while (!over.load()) {
        EXPECT_TRUE(refreshed->Refresh().ok()) << round;
        for (rocksdb::Iterator* const at : {refreshed.get(), tail.get()}) {
          at->SeekToFirst();
          EXPECT_TRUE(at->Valid()) << round << ' ' << at->status().ToString();
        }
      }
    });
    std::thread flusher([&] {
      ++started;
      while (!over.load()) EXPECT_TRUE(db->Flush({}).ok());
    });
    while (started.load() < 3) std::this_thread::yield();
    EXPECT_TRUE(db->DropColumnFamily(handle).ok());
    EXPECT_TRUE(db->Flush({}).ok());
    over.store(true);
    reader.join();
    walker.join();
    flusher.join();
    db.destroy(name);
  }
}

// Goal: a dropped family can be read to its last entry while a handle to it lives.
// Method: entries in tree and log, drop, flushes and writes to others, reads by every function,
// also
//         at snapshots from before and after the drop; then an iterator outlives the handle.
// Mutation: letting a flush take the family's memtables fails.
TEST(FacadeFamilies, ReadingADroppedOne) {
  expect_same(
      [](Db& db) {
        auto* const one = db.handle("one");
        EXPECT_TRUE(db->Put(kWrite, one, "tree", "1").ok());
        EXPECT_TRUE(db->Flush({}, one).ok());
        EXPECT_TRUE(db->Put(kWrite, one, "log", "1").ok());
        rocksdb::ReadOptions before;
        before.snapshot = db->GetSnapshot();
        EXPECT_TRUE(db->Put(kWrite, one, "late", "1").ok());
        const std::unique_ptr<rocksdb::Iterator> live(db->NewIterator({}, one));
        db.note("drop", db->DropColumnFamily(one));
        rocksdb::ReadOptions after;
        after.snapshot = db->GetSnapshot();
        for (int pass = 0; pass < 2; ++pass) {
          EXPECT_TRUE(db->Put(kWrite, "other", "1").ok());
          EXPECT_TRUE(db->Put(kWrite, db.handle("two"), "other", "1").ok());
          for (const char* key : {"tree", "log", "late"}) {
            for (const auto& options : {rocksdb::ReadOptions(), before, after}) {
              db.get("one", key, options);
            }
            std::vector<std::string> values;
            const std::vector<Status> statuses =
                db->MultiGet({}, {one, db.handle("two")}, {key, "other"}, &values);
            for (std::size_t i = 0; i < 2; ++i) db.note("many", statuses[i], values[i]);
          }
          db.scan("one");
          db.scan("one", before);
          db.note("flush", db->Flush({}));
        }
        db.note("refresh", live->Refresh());
        for (live->SeekToFirst(); live->Valid(); live->Next()) db.note(live->key().ToString());
        const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, one));
        db.destroy("one");
        for (at->SeekToFirst(); at->Valid(); at->Next()) db.note(at->key().ToString());
        db.note("end", at->status());
        db->ReleaseSnapshot(before.snapshot);
        db->ReleaseSnapshot(after.snapshot);
      },
      two_families());
}

// Goal: a new family of a dropped one's name is a new one.
// Method: drop with data in log and tree, create again, read, reopen, read.
// Mutation: replaying the log of the old one into the new one fails.
TEST(FacadeFamilies, SameNameAgain) {
  expect_same(
      [](Db& db) {
        EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "tree", "1").ok());
        EXPECT_TRUE(db->Flush({}, db.handle("one")).ok());
        EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "log", "1").ok());
        db.note("drop", db->DropColumnFamily(db.handle("one")));
        db.destroy("one");
        db.note("create", db.create("one"));
        db.scan("one");
        EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "new", "1").ok());
        db.reopen();
        db.scan("one");
      },
      two_families());
}

// Goal: a handle may be deleted instead of destroyed; others of the same family stay.
// Method: one family opened twice in one call, one handle deleted.
// Mutation: forgetting the family with its first handle fails.
TEST(FacadeFamilies, TwoHandles) {
  expect_same([](Db& db) {
    db.close();
    const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
        {"default", db.given().family}, {"one", db.given().family}, {"one", db.given().family}};
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    const Status status =
        db.is_breccia()
            ? Rocks::Open(options_of(db.given(), db.path()), db.path(), families, &handles, &opened)
            : rocksdb::DB::Open(db.given().db, db.path(), families, &handles, &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const std::unique_ptr<rocksdb::DB> both(opened);
    db.note("put", both->Put(kWrite, handles[1], "a", "1"));
    db.note("drop", both->DropColumnFamily(handles[1]));
    delete handles[1];
    std::string value;
    db.note("get", both->Get({}, handles[2], "a", &value), value);
    delete handles[2];
    delete handles[0];
  });
}

// Goal: RocksDB's utilities that look into handles work with ours.
// Method: DeleteFilesInRange by a handle of a family whose data lies in files; what it deletes was
//         read before, so that it could have been cached.
// Mutation: a handle without the function that librocksdb calls crashes.
TEST(FacadeFamilies, UtilitiesOfRocksDb) {
  expect_same(
      [](Db& db) {
        auto* const one = db.handle("one");
        EXPECT_TRUE(db->Put(kWrite, one, "a", "1").ok());
        EXPECT_TRUE(db->Flush({}, one).ok());
        EXPECT_TRUE(db->CompactRange({}, one, nullptr, nullptr).ok());
        db.get("one", "a");
        db.get("one", "a");
        db.note("delete", rocksdb::DeleteFilesInRange(db.get(), one, nullptr, nullptr));
        db.get("one", "a");
        rocksdb::CancelAllBackgroundWork(db.get(), true);
      },
      two_families());
}

}  // namespace breccia::testing
