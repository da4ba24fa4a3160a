#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "base/limits.h"
#include "record/record.h"
#include "support/folder.h"
#include "support/small_options.h"
#include "wal/log.h"

/// Which log a store takes for its own, and where its tree may lie.

namespace breccia::ordered {

namespace {

class LogFolder : public ::testing::Test {
 protected:
  Status open(const std::string& name, const std::string& log, std::unique_ptr<Store>* store) {
    Options options = testing::small_options();
    options.rocksdb = tree_;
    options.wal_dir = folder_ / log;
    store->reset();
    return Store::Open(options, folder_ / name, store);
  }
  /// Opens a store for a moment.
  Status visit(const std::string& name, const std::string& log) {
    std::unique_ptr<Store> store;
    return open(name, log, &store);
  }
  static std::string get(Store* store, const std::string& key) {
    std::string value;
    const Status status = store->Get(key, &value);
    return status.ok() ? value : status.ToString();
  }

  const testing::Folder folder_{testing::Place::kMemory};
  rocksdb::Options tree_ = testing::small_options().rocksdb;
};

}  // namespace

// Goal: the log of an open store is nobody else's, and it says so.
// Method: a second store with the same folder, while the first is open; both go on apart.
// Mutation: without the folder's lock the second store takes the segments of the first.
TEST_F(LogFolder, OpenOneIsRefused) {
  std::unique_ptr<Store> first;
  ASSERT_TRUE(open("one", "log", &first).ok());
  ASSERT_TRUE(first->Put(WriteOptions(), "key", "one").ok());
  const Status status = visit("other", "log");
  EXPECT_TRUE(status.IsIOError());
  EXPECT_NE(status.ToString().find(folder_ / "log"), std::string::npos) << status.ToString();
  EXPECT_TRUE(visit("other", "log-of-other").ok());
  ASSERT_TRUE(first->Put(WriteOptions(), "more", "one").ok());
  ASSERT_TRUE(open("one", "log", &first).ok());
  EXPECT_EQ(get(first.get(), "key"), "one");
  EXPECT_EQ(get(first.get(), "more"), "one");
}

// Goal: a closed store's log is not taken by another, new or old, written or not, flushed or not.
// Method: each of those takes the folder of each; then all go on with their own.
// Mutation: asking old stores only lets a new one replay the log of another into itself.
TEST_F(LogFolder, ForeignOneIsRefused) {
  std::unique_ptr<Store> store;
  ASSERT_TRUE(open("written", "log-written", &store).ok());
  ASSERT_TRUE(store->Put(WriteOptions(), "key", "written").ok());
  ASSERT_TRUE(open("flushed", "log-flushed", &store).ok());
  ASSERT_TRUE(store->Put(WriteOptions(), "key", "flushed").ok());
  ASSERT_TRUE(store->Flush().ok());
  ASSERT_TRUE(open("empty", "log-empty", &store).ok());
  store.reset();
  for (const std::string name : {"written", "flushed", "empty", "new"}) {
    for (const std::string other : {"written", "flushed", "empty"}) {
      if (name == other) continue;
      SCOPED_TRACE(name + " with the log of " + other);
      const Status status = visit(name, "log-" + other);
      EXPECT_TRUE(status.IsCorruption());
      EXPECT_NE(status.ToString().find("another store"), std::string::npos) << status.ToString();
      EXPECT_NE(status.ToString().find("wal_dir"), std::string::npos) << status.ToString();
    }
    ASSERT_TRUE(open(name, "log-" + name, &store).ok());
    if (name == "written" || name == "flushed") {
      EXPECT_EQ(get(store.get(), "key"), name);
    }
    store.reset();
  }
}

// Goal: the log does not lie among the tree's files, whose names RocksDB reads in its own way.
// Method: the store's folder in several spellings, before it is there and after; a folder in it.
// Mutation: comparing the strings lets the second opening fail with a file that never was.
TEST_F(LogFolder, IsNotTheTreesFolder) {
  for (const std::string when : {"before", "after"}) {
    for (const std::string name : {"store", "store/", "./store", "store/../store"}) {
      EXPECT_TRUE(visit("store", name).IsInvalidArgument()) << when << ": " << name;
    }
    EXPECT_TRUE(visit("store", "store/deep/log").ok()) << when;
  }
}

// Goal: a store whose first opening ended before it had a log opens later; one that had a log and
// finds an empty folder does not.
// Method: a log folder that cannot be made, then one that can; then another, empty one.
// Mutation: a watermark above zero before there is a log makes the first opening the last.
TEST_F(LogFolder, FirstOpeningMayEndBeforeTheLogIsMade) {
  std::filesystem::create_symlink("nowhere/else", folder_ / "log");
  EXPECT_TRUE(visit("store", "log").IsIOError());
  std::filesystem::remove(folder_ / "log");
  EXPECT_TRUE(visit("store", "log").ok());
  EXPECT_TRUE(visit("store", "empty").IsCorruption());
  EXPECT_TRUE(visit("store", "log").ok());
}

// Goal: all of the tree goes through the Env that the user chose.
// Method: an Env in memory, with file checksums; a flush and a reopening.
// Mutation: writing the watermark's file past the Env fails the first ingest.
TEST_F(LogFolder, TreeMayLieInAnEnv) {
  const std::unique_ptr<rocksdb::Env> memory(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  tree_.env = memory.get();
  tree_.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  std::unique_ptr<Store> store;
  const Status status = open("store", "log", &store);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_TRUE(store->Put(WriteOptions(), "key", "value").ok());
  ASSERT_TRUE(store->Flush().ok());
  ASSERT_TRUE(open("store", "log", &store).ok());
  EXPECT_EQ(store->recovery().entries, 0U);
  EXPECT_EQ(get(store.get(), "key"), "value");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "store"));
  store.reset();
}

// Goal: a value behind a gap, which other engines write, is read without it, one by one and in
// batches, from the log and from files.
// Method: a frame of such puts behind what a store has written; the store is opened again.
// Mutation: a reader that takes the value to begin behind the key.
TEST_F(LogFolder, ValuesMayLieBehindGaps) {
  constexpr std::uint64_t kPuts = 300;
  const auto key_of = [](std::uint64_t i) { return "key" + std::to_string(1000 + i); };
  const auto value_of = [](std::uint64_t i) { return std::string(1 + i % 70, char('a' + i % 26)); };
  ASSERT_TRUE(visit("one", "log").ok());
  std::vector<std::byte> records;
  for (std::uint64_t i = 0; i < kPuts; ++i) {
    const std::string key = key_of(i);
    const std::string value = value_of(i);
    const auto header =
        record::RecordHeader::make(record::Op::kPut, key.size(), value.size(), i % 8);
    records.resize(records.size() + header.record_bytes());
    record::write_record(records.data() + records.size() - header.record_bytes(), header,
                         key.data(), key.size(), value.data(), value.size());
  }
  {
    wal::LogOptions options;
    options.dir = folder_ / "log";
    options.files = wal::real_files();
    wal::LogRecovery recovery;
    auto log = wal::Log::open(
        options, limits::kLogWindowBytes, [](const wal::RecoveredFrame&) { return Status::OK(); },
        &recovery);
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    auto frame = log.value()->reserve(records.size(), kPuts, /*descriptor_count=*/0);
    ASSERT_TRUE(frame.ok());
    log.value()->fill(&frame.value(), records.data());
    log.value()->seal(&frame.value());
    ASSERT_TRUE(log.value()->commit(frame.value().end(), /*sync=*/true).ok());
  }
  std::unique_ptr<Store> store;
  ASSERT_TRUE(open("one", "log", &store).ok());
  for (const bool is_flushed : {false, true}) {
    if (is_flushed) {
      ASSERT_TRUE(store->Flush().ok());
    }
    Batch batch = store->NewBatch();
    for (std::uint64_t i = 0; i < kPuts; ++i) {
      ASSERT_EQ(get(store.get(), key_of(i)), value_of(i));
      ASSERT_TRUE(batch.Get(key_of(i)).ok());
    }
    ASSERT_TRUE(store->Submit(WriteOptions(), &batch).ok());
    for (std::uint64_t i = 0; i < kPuts; ++i) ASSERT_EQ(batch.value(i).ToString(), value_of(i));
  }
}

}  // namespace breccia::ordered
