#include <gtest/gtest.h>
#include <rocksdb/snapshot.h>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

}  // namespace

// Goal: a snapshot keeps what it saw, through writes, deletions, merges, flushes and compactions.
// Method: a snapshot after each step; at the end all of them are read by every kind of read.
// Mutation: reading the present for an old snapshot fails; so does losing its versions in a flush.
TEST(FacadeSnapshots, KeepTheirView) {
  expect_same([](Db& db) {
    std::vector<const rocksdb::Snapshot*> snapshots;
    const auto take = [&] { snapshots.push_back(db->GetSnapshot()); };
    auto* const family = db->DefaultColumnFamily();
    take();
    EXPECT_TRUE(db->Put(kWrite, "a", "1").ok());
    EXPECT_TRUE(db->Put(kWrite, "b", "1").ok());
    take();
    EXPECT_TRUE(db->Put(kWrite, "a", "2").ok());
    EXPECT_TRUE(db->Merge(kWrite, "m", "1").ok());
    take();
    EXPECT_TRUE(db->Flush({}).ok());
    take();
    EXPECT_TRUE(db->Delete(kWrite, "a").ok());
    EXPECT_TRUE(db->Merge(kWrite, "m", "2").ok());
    take();
    EXPECT_TRUE(db->DeleteRange(kWrite, family, "b", "c").ok());
    take();
    EXPECT_TRUE(db->Flush({}).ok());
    EXPECT_TRUE(db->CompactRange({}, nullptr, nullptr).ok());
    EXPECT_TRUE(db->Put(kWrite, "a", "3").ok());
    take();
    const std::vector<Slice> keys = {"a", "b", "m"};
    for (const rocksdb::Snapshot* snapshot : snapshots) {
      rocksdb::ReadOptions options;
      options.snapshot = snapshot;
      for (const Slice& key : keys) db.get(key.ToString(), options);
      db.scan("default", options);
      std::vector<std::string> values;
      const std::vector<Status> statuses = db->MultiGet(options, keys, &values);
      for (std::size_t i = 0; i < keys.size(); ++i) db.note("many", statuses[i], values[i]);
      db->ReleaseSnapshot(snapshot);
    }
    db->ReleaseSnapshot(nullptr);
  });
}

// Goal: a snapshot says when it was taken, and numbers grow with writes.
// Method: order of sequence numbers with and without writes between; time; ManagedSnapshot.
// Mutation: a sequence number that does not grow with a write fails.
TEST(FacadeSnapshots, Numbers) {
  expect_same([](Db& db) {
    const rocksdb::ManagedSnapshot first(db.get());
    const rocksdb::ManagedSnapshot same(db.get());
    EXPECT_TRUE(db->Put(kWrite, "a", "1").ok());
    const rocksdb::ManagedSnapshot later(db.get());
    const auto number = [](const rocksdb::ManagedSnapshot& one) {
      return const_cast<rocksdb::ManagedSnapshot&>(one).snapshot()->GetSequenceNumber();
    };
    db.note(number(first) == number(same) ? "same" : "different");
    db.note(number(first) < number(later) ? "grows" : "does not grow");
    db.note(number(later) == db->GetLatestSequenceNumber() ? "latest" : "another");
    auto* const snapshot = const_cast<rocksdb::ManagedSnapshot&>(first).snapshot();
    db.note(snapshot->GetUnixTime() > 1'600'000'000 ? "now" : "then");
    db.note(std::to_string(snapshot->GetTimestamp()));
    std::uint64_t count = 0;
    EXPECT_TRUE(db->GetIntProperty("rocksdb.num-snapshots", &count));
    db.note(std::to_string(count));
  });
}

// Goal: a family that is younger than a snapshot is empty for it.
// Method: all reads of a new family at an old snapshot.
// Mutation: reading the present there fails.
TEST(FacadeSnapshots, YoungerFamily) {
  expect_same([](Db& db) {
    rocksdb::ReadOptions options;
    options.snapshot = db->GetSnapshot();
    EXPECT_TRUE(db.create("new").ok());
    EXPECT_TRUE(db->Put(kWrite, db.handle("new"), "a", "1").ok());
    db.get("new", "a", options);
    db.get("new", "a");
    db.scan("new", options);
    std::vector<std::string> values;
    for (const Status& status : db->MultiGet(options, {db.handle("new")}, {"a"}, &values)) {
      db.note("many", status);
    }
    db->ReleaseSnapshot(options.snapshot);
  });
}

}  // namespace breccia::testing
