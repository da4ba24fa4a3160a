#include <breccia/rocks.h>
#include <gtest/gtest.h>
#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/options_util.h>
#include <rocksdb/wal_filter.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "both.h"
#include "facade/db/core.h"
#include "facade/db/options.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

/// The smallest program of RocksDB's there is: what opens here opens with one line changed.
rocksdb::Options plain_options() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  return options;
}

std::string get(rocksdb::DB* db, const std::string& key) {
  std::string value;
  const Status status = db->Get({}, key, &value);
  return status.ok() ? value : code_of(status);
}

}  // namespace

// Goal: a program of RocksDB's runs with one line changed.
// Method: open with RocksDB's options and its real log files, write, reopen, read, look from
//          outside.
// Mutation: losing what was not flushed at close fails.
TEST(FacadeOpen, OneLineChanged) {
  const Folder folder(Place::kMemory);
  const std::string path = folder / "db";
  for (int opening = 0; opening < 2; ++opening) {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(Rocks::Open(plain_options(), path, &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    ASSERT_TRUE(opening != 0 || db->Put(kWrite, "key", "value").ok());
    EXPECT_EQ(get(db.get(), "key"), "value");
    rocksdb::DB* second = nullptr;
    EXPECT_TRUE(Rocks::Open(plain_options(), path, &second).IsIOError());
    EXPECT_EQ(second, nullptr);
  }
  EXPECT_TRUE(std::filesystem::exists(path + "/log"));
  ASSERT_TRUE(Rocks::DestroyDB(path, plain_options()).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  rocksdb::DB* again = nullptr;
  ASSERT_TRUE(Rocks::Open(plain_options(), path, &again).ok());
  EXPECT_EQ(get(again, "key"), "NotFound");
  delete again;
}

// Goal: opening refuses what RocksDB refuses, with the same code.
// Method: a missing database, an existing one, families missing, not named, without the default
//          one.
// Mutation: creating families that nobody asked to create fails.
TEST(FacadeOpen, Errors) {
  expect_same([](Db& db) {
    db.close();
    const auto try_open = [&](const std::string& what) {
      db.note(what, db.open());
      db.close();
    };
    const Given given = db.given();
    db.given().families = {"one"};
    db.given().db.create_missing_column_families = false;
    try_open("missing family");
    db.given().db.create_missing_column_families = true;
    try_open("created family");
    db.given().families.clear();
    try_open("family not named");
    db.given() = given;
    db.given().families = {"one"};
    db.given().db.error_if_exists = true;
    try_open("exists");
    db.given().db.error_if_exists = false;
    db.given().db.create_if_missing = false;
    try_open("fine");
    const std::vector<rocksdb::ColumnFamilyDescriptor> no_default = {{"one", given.family}};
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    db.note("no default",
            db.is_breccia()
                ? Rocks::Open(given.db, db.path(), no_default, &handles, &opened)
                : rocksdb::DB::Open(given.db, db.path(), no_default, &handles, &opened));
    std::filesystem::remove_all(db.path());
    try_open("missing");
    db.note(std::filesystem::exists(db.path()) ? "a folder" : "no folder");
  });
}

// Goal: options that cannot be kept are refused with a sentence, and nothing is made.
// Method: comparators, an Env, a filter of the log, the hidden family's name.
// Mutation: opening with another comparator would find keys in the wrong order.
TEST(FacadeOpen, WhatIsRefused) {
  const Folder folder(Place::kMemory);
  rocksdb::DB* db = nullptr;
  rocksdb::Options options = plain_options();
  options.comparator = rocksdb::ReverseBytewiseComparator();
  EXPECT_TRUE(Rocks::Open(options, folder / "db", &db).IsInvalidArgument());
  options = plain_options();
  options.create_missing_column_families = true;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::ColumnFamilyOptions reverse;
  reverse.comparator = rocksdb::ReverseBytewiseComparator();
  EXPECT_TRUE(
      Rocks::Open(options, folder / "db", {{"default", options}, {"one", reverse}}, &handles, &db)
          .IsInvalidArgument());
  EXPECT_TRUE(Rocks::Open(options, folder / "db",
                          {{"default", options}, {"breccia.watermark", options}}, &handles, &db)
                  .IsInvalidArgument());
  options = plain_options();
  options.table_factory.reset(rocksdb::NewPlainTableFactory());
  EXPECT_TRUE(Rocks::Open(options, folder / "db", &db).IsNotSupported());
  const std::unique_ptr<rocksdb::Env> env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  options.env = env.get();
  EXPECT_TRUE(Rocks::Open(options, folder / "db", &db).IsNotSupported());
  class Filter final : public rocksdb::WalFilter {
    [[nodiscard]] const char* Name() const override { return "filter"; }
  } filter;
  options = plain_options();
  options.wal_filter = &filter;
  EXPECT_TRUE(Rocks::Open(options, folder / "db", &db).IsNotSupported());
  EXPECT_TRUE(Rocks::OpenAndTrimHistory({}, folder / "db", {}, &handles, &db, "").IsNotSupported());
  Options own;
  own.rocksdb = plain_options();
  own.hot_tier = HotOptions();
  EXPECT_TRUE(Rocks::Open(own, folder / "db", &db).IsNotSupported());
  EXPECT_FALSE(std::filesystem::exists(folder / "db"));
  EXPECT_EQ(db, nullptr);
}

// Goal: the Env of a database is the user's, also where the tree's has another one below; and
//   options that somebody took from the tree open a database.
// Method: a database with residency, and another one with options of its root.
// Mutation: the tree's own Env in options; an Env that is refused as somebody's own.
TEST(FacadeOpen, TheEnvIsTheUsers) {
  const Folder folder(Place::kMemory);
  Options options;
  options.create_if_missing = true;
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.residency_bytes = 1 << 20;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(Rocks::Open(options, folder / "db", &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  EXPECT_EQ(db->GetEnv(), rocksdb::Env::Default());
  EXPECT_EQ(db->GetDBOptions().env, rocksdb::Env::Default());
  EXPECT_EQ(db->GetOptions().env, rocksdb::Env::Default());
  EXPECT_EQ(db->GetFileSystem(), rocksdb::FileSystem::Default().get());
  Options other;
  other.create_if_missing = true;
  other.rocksdb = db->GetRootDB()->GetOptions();
  EXPECT_NE(other.rocksdb.env, rocksdb::Env::Default());
  other.residency_bytes = 1 << 20;
  // RocksDB has filled in what is the first one's.
  other.rocksdb.db_paths.clear();
  other.rocksdb.cf_paths.clear();
  other.rocksdb.sst_file_manager.reset();
  other.rocksdb.info_log.reset();
  other.rocksdb.listeners.clear();
  other.rocksdb.compaction_service.reset();
  ASSERT_TRUE(Rocks::Open(other, folder / "other", &opened).ok());
  const std::unique_ptr<rocksdb::DB> second(opened);
  for (rocksdb::DB* const one : {db.get(), second.get()}) {
    ASSERT_TRUE(one->Put(kWrite, "a", one->GetName()).ok());
    ASSERT_TRUE(one->Flush({}).ok());
    EXPECT_EQ(get(one, "a"), one->GetName());
  }
}

// Goal: a database that RocksDB wrote, its log included, goes on with breccia and back again.
// Method: RocksDB writes without a flush; breccia reads, writes, flushes; RocksDB reads and writes;
//         breccia reads.
// Mutation: not taking RocksDB's log over loses its entries.
TEST(FacadeOpen, ThereAndBackAgain) {
  Db rocks(Kind::kRocksDb, usual());
  ASSERT_TRUE(rocks.open().ok());
  ASSERT_TRUE(rocks->Put(kWrite, "a", "RocksDB").ok());
  ASSERT_TRUE(rocks->Flush({}).ok());
  ASSERT_TRUE(rocks->Merge(kWrite, "a", "its log").ok());
  rocks.close();
  const std::string path = rocks.path();
  const auto open = [&] {
    rocksdb::DB* opened = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const Status status = Rocks::Open(options_of(usual(), path), path,
                                      {{"default", usual().family}}, &handles, &opened);
    EXPECT_TRUE(status.ok()) << status.ToString();
    delete handles.at(0);
    return std::unique_ptr<rocksdb::DB>(opened);
  };
  std::unique_ptr<rocksdb::DB> breccia = open();
  EXPECT_EQ(get(breccia.get(), "a"), "RocksDB,its log");
  ASSERT_TRUE(breccia->Merge(kWrite, "a", "breccia").ok());
  ASSERT_TRUE(breccia->Flush({}).ok());
  breccia.reset();
  EXPECT_EQ(contents_by_rocksdb(path, usual()),
            std::vector<std::string>{"default/a=RocksDB,its log,breccia"});
  breccia = open();
  EXPECT_EQ(get(breccia.get(), "a"), "RocksDB,its log,breccia");
}

// Goal: read-only and secondary instances see what lies in files, and list the user's families.
// Method: both forms of both, after a flush and a write.
// Mutation: listing the hidden family fails.
TEST(FacadeOpen, ReadOnlyAndSecondary) {
  Given given = usual();
  given.families = {"one"};
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->Put(kWrite, "a", "flushed").ok());
  ASSERT_TRUE(db->Put(kWrite, db.handle("one"), "a", "flushed").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  std::vector<std::string> names;
  ASSERT_TRUE(Rocks::ListColumnFamilies(given.db, db.path(), &names).ok());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"default", "one"}));
  rocksdb::Options options(given.db, given.family);
  options.max_open_files = -1;
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", given.family},
                                                                 {"one", given.family}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(Rocks::OpenForReadOnly(options, db.path(), &opened).ok());
  EXPECT_EQ(get(opened, "a"), "flushed");
  EXPECT_TRUE(opened->Put(kWrite, "a", "1").IsNotSupported());
  delete opened;
  ASSERT_TRUE(Rocks::OpenForReadOnly(options, db.path(), families, &handles, &opened).ok());
  std::string value;
  EXPECT_TRUE(opened->Get({}, handles[1], "a", &value).ok());
  for (auto* handle : handles) delete handle;
  delete opened;
  ASSERT_TRUE(Rocks::OpenAsSecondary(options, db.path(), db.beside("2"), &opened).ok());
  ASSERT_TRUE(db->Put(kWrite, "a", "newer").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  EXPECT_TRUE(opened->TryCatchUpWithPrimary().ok());
  EXPECT_EQ(get(opened, "a"), "newer");
  delete opened;
  handles.clear();
  ASSERT_TRUE(
      Rocks::OpenAsSecondary(options, db.path(), db.beside("3"), families, &handles, &opened).ok());
  EXPECT_EQ(get(opened, "a"), "newer");
  for (auto* handle : handles) delete handle;
  delete opened;
}

// Goal: the log lies where RocksDB's would, and goes with DestroyDB.
// Method: wal_dir elsewhere, and the database's own folder under another name.
// Mutation: putting our segments beside RocksDB's log files makes it read them.
TEST(FacadeOpen, WalDir) {
  const Folder folder(Place::kMemory);
  rocksdb::Options options = plain_options();
  for (const std::string& wal_dir : {folder / "elsewhere", folder / "./db"}) {
    options.wal_dir = wal_dir;
    for (int opening = 0; opening < 2; ++opening) {
      rocksdb::DB* opened = nullptr;
      ASSERT_TRUE(Rocks::Open(options, folder / "db", &opened).ok());
      const std::unique_ptr<rocksdb::DB> db(opened);
      ASSERT_TRUE(opening != 0 || db->Put(kWrite, "key", "value").ok());
      EXPECT_EQ(get(db.get(), "key"), "value");
      EXPECT_TRUE(std::filesystem::exists(wal_dir + "/log"));
    }
    ASSERT_TRUE(Rocks::DestroyDB(folder / "db", options).ok());
    EXPECT_FALSE(std::filesystem::exists(wal_dir + "/log"));
  }
}

// Goal: a store whose log was lost is no copy: opening it reports the loss.
// Method: the log's folder is taken away, with and without the folder of staged files.
// Mutation: taking any store without a log for a copy loses its last writes in silence.
TEST(FacadeOpen, LostLog) {
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->Put(kWrite, "a", "1").ok());
  db.close();
  std::filesystem::rename(db.path() + "/log", db.beside("log"));
  EXPECT_TRUE(db.open().IsCorruption());
  std::filesystem::remove_all(db.path() + "/log");
  std::filesystem::rename(db.beside("log"), db.path() + "/log");
  // A log that is there counts, whatever else was taken away.
  std::filesystem::remove_all(db.path() + "/breccia-staging");
  ASSERT_TRUE(db.open().ok());
  EXPECT_EQ(get(db.get(), "a"), "1");
}

// Goal: breccia's own options can be given, for one family and for several.
// Method: both forms with a device threshold and a small log; their properties.
// Mutation: not handing the backend on fails.
TEST(FacadeOpen, OwnOptions) {
  const Folder folder(Place::kMemory);
  Options options = options_of(usual(), folder / "db");
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(Rocks::Open(options, folder / "db", &opened).ok());
  std::string backend;
  EXPECT_TRUE(opened->GetProperty("breccia.backend", &backend));
  EXPECT_NE(backend.find("host"), std::string::npos);
  const auto waits = [&] {
    return static_cast<Rocks*>(opened)->core().engine().options().wait_us_max;
  };
  EXPECT_EQ(static_cast<rocksdb::StackableDB*>(opened)->GetBaseDB(), opened);
  EXPECT_EQ(waits(), facade::kWaitUsMax);  // like RocksDB's: as long as it takes
  delete opened;
  options.wait_us_max = 5;
  ASSERT_TRUE(Rocks::Open(options, folder / "db", &opened).ok());
  EXPECT_EQ(waits(), 5u);
  delete opened;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  ASSERT_TRUE(Rocks::Open(options, folder / "db",
                          {{"default", usual().family}, {"one", usual().family}}, &handles, &opened)
                  .ok());
  EXPECT_EQ(handles.size(), 2u);
  for (auto* handle : handles) delete handle;
  delete opened;
}

// Goal: the OPTIONS file that RocksDB keeps of our database can be read back, and says what it
//          said.
// Method: what LoadLatestOptions returns opens the database, with two files a flush, three times.
// Mutation: returning the tree's triggers doubles them each time.
TEST(FacadeOpen, OptionsFile) {
  Given given = usual();
  given.families = {"one"};
  given.family.merge_operator = nullptr;
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  const std::string path = db.path();
  db.close();
  for (int round = 0; round < 3; ++round) {
    rocksdb::DBOptions options;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Rocks::LoadLatestOptions({}, path, &options, &families).ok());
    ASSERT_EQ(families.size(), 2u);
    for (const auto& family : families) {
      EXPECT_EQ(family.options.level0_stop_writes_trigger, given.family.level0_stop_writes_trigger);
    }
    Options engine = facade::engine_options(options, path, families);
    engine.flush_threads = 2;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(Rocks::Open(engine, path, families, &handles, &opened).ok());
    for (auto* handle : handles) delete handle;
    delete opened;
  }
}

// Goal: a store that is closed becomes an ordinary database, with what was in its log.
// Method: entries, operands and a family in the log; detach twice; RocksDB opens it as it opens its
//          own; breccia after it.
// Mutation: leaving the log behind fails the last opening.
TEST(FacadeOpen, Detach) {
  Given given = usual();
  given.families = {"one"};
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->Put(kWrite, "key", "value").ok());
  ASSERT_TRUE(db->Merge(kWrite, db.handle("one"), "key", "operand").ok());
  db.close();
  const Options options = options_of(given, db.path());
  const facade::Descriptors families = {{"default", given.family}, {"one", given.family}};
  EXPECT_TRUE(Rocks::Detach(options, db.path(), {{"default", given.family}}).IsInvalidArgument());
  EXPECT_FALSE(Rocks::Detach(options, db.beside("nothing"), families).ok());
  for (int round = 0; round < 2; ++round) {
    const Status status = Rocks::Detach(options, db.path(), families);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_FALSE(std::filesystem::exists(db.path() + "/log"));
  EXPECT_EQ(contents_by_rocksdb(db.path(), given),
            (std::vector<std::string>{"default/key=value", "one/key=operand"}));
  std::vector<std::string> names;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies(given.db, db.path(), &names).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"default", "one"}));
  ASSERT_TRUE(db.open().ok());
  EXPECT_EQ(get(db.get(), "key"), "value");
}

// Goal: with flush_at_close a closed database is whole for RocksDB; without it is not.
// Method: both ways, with a log and without.
// Mutation: flushing always, or never, fails.
TEST(FacadeOpen, FlushAtClose) {
  for (const bool flush : {false, true}) {
    for (const bool has_log : {false, true}) {
      const Folder folder(Place::kMemory);
      Options options = options_of(usual(), folder / "db");
      options.flush_at_close = flush;
      rocksdb::DB* opened = nullptr;
      ASSERT_TRUE(Rocks::Open(options, folder / "db", &opened).ok());
      rocksdb::WriteOptions write;
      write.disableWAL = !has_log;
      ASSERT_TRUE(opened->Put(write, "key", "value").ok());
      delete opened;
      EXPECT_EQ(contents_by_rocksdb(folder / "db", usual()).size(), flush ? 1U : 0U);
    }
  }
}

}  // namespace breccia::testing
