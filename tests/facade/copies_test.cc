#include <breccia/rocks.h>
#include <gtest/gtest.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>

#include <filesystem>
#include <fstream>

#include "support/folder.h"
#include "tree/copies.h"

/// Which database a log belongs to, where RocksDB has made copies of a store's files.

namespace breccia::testing {

namespace {

namespace fs = std::filesystem;

/// A store whose log lies where the program says, and a copy of it that was made before "later" was
/// written.
class FacadeCopies : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.create_if_missing = true;
    options_.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options_.write_buffer_size = 1 << 20;
    options_.wal_dir = folder_ / "wal";
  }

  void make_original_and_copy() {
    std::unique_ptr<rocksdb::DB> db;
    ASSERT_TRUE(open("store", &db).ok());
    ASSERT_TRUE(db->Put({}, "first", "1").ok());
    rocksdb::Checkpoint* made = nullptr;
    ASSERT_TRUE(rocksdb::Checkpoint::Create(db.get(), &made).ok());
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    ASSERT_TRUE(checkpoint->CreateCheckpoint(folder_ / "copy").ok());
    ASSERT_TRUE(db->Put({}, "later", "2").ok());
  }

  Status open(const std::string& name, std::unique_ptr<rocksdb::DB>* db) {
    db->reset();
    rocksdb::DB* opened = nullptr;
    const Status status = Rocks::Open(options_, folder_ / name, &opened);
    db->reset(opened);
    return status;
  }
  /// What is in the database: values by key, or why it does not open.
  std::string look(const std::string& name) {
    std::unique_ptr<rocksdb::DB> db;
    const Status status = open(name, &db);
    if (!status.ok()) return status.IsCorruption() ? "Corruption" : status.ToString();
    std::string text;
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      text += at->key().ToString() + "=" + at->value().ToString() + " ";
    }
    return text;
  }
  Status visit(const std::string& name) {
    std::unique_ptr<rocksdb::DB> db;
    return open(name, &db);
  }

  const Folder folder_{Place::kMemory};
  rocksdb::Options options_;
};

constexpr char kBoth[] = "first=1 later=2 ";

}  // namespace

// Goal: a copy that is opened with its original's wal_dir does not touch the original's log.
// Method: open, detach and destroy it while the original is open and when it is closed; then give
//         the copy a log of its own; write to both.
// Mutation: taking the folder for a store wherever a log of that identity lies replays `later`.
TEST_F(FacadeCopies, KeepOffTheLogOfTheOriginal) {
  make_original_and_copy();
  {
    std::unique_ptr<rocksdb::DB> original;
    ASSERT_TRUE(open("store", &original).ok());
    EXPECT_TRUE(visit("copy").IsIOError());
    ASSERT_TRUE(original->Put({}, "later", "2").ok());
  }
  const Status status = visit("copy");
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_NE(status.ToString().find(folder_ / "wal"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("wal_dir"), std::string::npos) << status.ToString();
  Options as_engine;
  as_engine.rocksdb = options_;
  as_engine.wal_dir = folder_ / "wal/log";
  EXPECT_TRUE(Rocks::Detach(as_engine, folder_ / "copy", {{"default", options_}}).IsCorruption());
  EXPECT_EQ(look("store"), kBoth);

  options_.wal_dir = folder_ / "wal-of-copy";
  EXPECT_EQ(look("copy"), "first=1 ");
  EXPECT_EQ(look("store"), "Corruption");
  std::unique_ptr<rocksdb::DB> copy;
  ASSERT_TRUE(open("copy", &copy).ok());
  ASSERT_TRUE(copy->Put({}, "own", "3").ok());
  copy.reset();
  EXPECT_EQ(look("copy"), "first=1 own=3 ");

  options_.wal_dir = folder_ / "wal";
  EXPECT_EQ(look("copy"), "Corruption");
  ASSERT_TRUE(Rocks::DestroyDB(folder_ / "copy", options_).ok());
  EXPECT_EQ(look("store"), kBoth);
  ASSERT_TRUE(Rocks::DestroyDB(folder_ / "store", options_).ok());
  EXPECT_FALSE(fs::exists(folder_ / "wal/log"));
}

// Goal: a store that moves finds its log; one without its mark does not lose it.
// Method: the folder gets another name, with the log in it and elsewhere; the mark goes and comes.
// Mutation: binding the log to the folder's path makes the moved store a copy; a copy that takes a
//           folder with a log makes the store without its mark begin anew.
TEST_F(FacadeCopies, AMovedStoreKeepsItsLog) {
  for (const std::string& wal_dir : {folder_ / "wal", std::string()}) {
    SCOPED_TRACE(wal_dir);
    options_.wal_dir = wal_dir;
    make_original_and_copy();
    fs::rename(folder_ / "store", folder_ / "moved");
    EXPECT_EQ(look("moved"), kBoth);
    const std::string mark = folder_ / "moved/" + tree::kStoreMark;
    fs::rename(mark, folder_ / "mark");
    std::string identity;
    std::ifstream(folder_ / "mark") >> identity;
    const Status refused = visit("moved");
    EXPECT_TRUE(refused.IsCorruption());
    EXPECT_NE(refused.ToString().find(identity), std::string::npos) << refused.ToString();
    std::ofstream(mark) << "torn";
    EXPECT_EQ(look("moved"), "Corruption");
    fs::rename(folder_ / "mark", mark);
    EXPECT_EQ(look("moved"), kBoth);
    fs::remove_all(folder_ / "moved");
    fs::remove_all(folder_ / "copy");
  }
}

// Goal: a copy that was being made a store when the process ended is made one again.
// Method: the mark of a new identity in a folder that still has the original's watermark, with a
//         log of the original's there and without.
// Mutation: asking only whether there is a mark misses the log that the watermark speaks of.
TEST_F(FacadeCopies, HalfMadeAStore) {
  make_original_and_copy();
  std::ofstream(folder_ / "copy/" + tree::kStoreMark) << "00000000000000ab\n";
  EXPECT_EQ(look("copy"), "Corruption");
  EXPECT_EQ(look("store"), kBoth);
  options_.wal_dir = folder_ / "wal-of-copy";
  EXPECT_EQ(look("copy"), "first=1 ");
}

// Goal: nobody opens, not even to read, what a restore has left half done.
// Method: the note of a restore in a store's folder and in a RocksDB database's; every way to open;
//   the note taken back.
// Mutation: any of the five ways without the question shows half a database.
TEST_F(FacadeCopies, RestoreThatDidNotEnd) {
  options_.wal_dir.clear();
  std::unique_ptr<rocksdb::DB> made;
  ASSERT_TRUE(open("store", &made).ok());
  ASSERT_TRUE(made->Put({}, "first", "1").ok());
  made.reset();
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options_, folder_ / "plain", &opened).ok());
  made.reset(opened);
  ASSERT_TRUE(made->Put({}, "first", "1").ok());
  made.reset();
  rocksdb::Env* const env = rocksdb::Env::Default();
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, {}}};
  const std::string beside = folder_ / "secondary";
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  for (const std::string name : {"store", "plain"}) {
    SCOPED_TRACE(name);
    const std::string path = folder_ / name;
    ASSERT_TRUE(tree::begin_restore(env, path).ok());
    EXPECT_EQ(look(name), "Corruption");
    EXPECT_TRUE(Rocks::OpenForReadOnly(rocksdb::Options(), path, &opened).IsCorruption());
    EXPECT_TRUE(Rocks::OpenForReadOnly(rocksdb::DBOptions(), path, families, &handles, &opened)
                    .IsCorruption());
    EXPECT_TRUE(Rocks::OpenAsSecondary(rocksdb::Options(), path, beside, &opened).IsCorruption());
    EXPECT_TRUE(
        Rocks::OpenAsSecondary(rocksdb::DBOptions(), path, beside, families, &handles, &opened)
            .IsCorruption());
    ASSERT_TRUE(tree::end_restore(env, path).ok());
    EXPECT_EQ(look(name), "first=1 ");
  }
}

// Goal: what BackupEngine restores over a store is not hidden by the log of what was there.
// Method: back up, write on, restore in place; the log in the folder and elsewhere.
// Mutation: telling a store by a folder in its folder, which BackupEngine leaves, replays `later`.
TEST_F(FacadeCopies, RestoredInPlace) {
  for (const std::string& wal_dir : {folder_ / "wal", std::string()}) {
    SCOPED_TRACE(wal_dir);
    options_.wal_dir = wal_dir;
    const std::string path = folder_ / "store";
    rocksdb::BackupEngine* opened = nullptr;
    const rocksdb::BackupEngineOptions how(folder_ / "backups");
    ASSERT_TRUE(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), how, &opened).ok());
    const std::unique_ptr<rocksdb::BackupEngine> engine(opened);
    std::unique_ptr<rocksdb::DB> db;
    ASSERT_TRUE(open("store", &db).ok());
    ASSERT_TRUE(db->Put({}, "first", "1").ok());
    ASSERT_TRUE(engine->CreateNewBackup(db.get()).ok());
    ASSERT_TRUE(db->Put({}, "later", "2").ok());
    db.reset();
    ASSERT_TRUE(engine->RestoreDBFromLatestBackup(path, path).ok());
    EXPECT_EQ(look("store"), "Corruption");
    const std::string log = (wal_dir.empty() ? path : wal_dir) + "/log";
    ASSERT_GT(fs::remove_all(log), 0U);
    EXPECT_EQ(look("store"), "first=1 ");
    fs::remove_all(path);
    fs::remove_all(log);
  }
}

// Goal: databases of one process that are backed up into one folder keep their own files there.
// Method: two whose files have the same numbers and sizes, compacted in the second turn; each
//         backup restored.
// Mutation: tables that are told apart by a session of the process: a backup shares files of the
//           same session, number and size.
TEST_F(FacadeCopies, OfTwoStoresInOneBackup) {
  constexpr int kKeys = 1000;
  options_.compression = rocksdb::kNoCompression;
  rocksdb::BackupEngine* opened = nullptr;
  const rocksdb::BackupEngineOptions how(folder_ / "backups");
  ASSERT_TRUE(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), how, &opened).ok());
  const std::unique_ptr<rocksdb::BackupEngine> engine(opened);
  const auto fill = [&](rocksdb::DB* db, const std::string& value) {
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(db->Put({}, std::to_string(10'000 + i), value).ok());
    }
    ASSERT_TRUE(db->Flush({}).ok());
  };
  std::vector<std::string> values;
  for (const bool is_compacted : {false, true}) {
    for (const char* const name : {"a", "b"}) {
      values.push_back(std::string(name) + (is_compacted ? "2" : "1"));
      options_.wal_dir = folder_ / (values.back() + "-wal");
      std::unique_ptr<rocksdb::DB> db;
      ASSERT_TRUE(open(values.back(), &db).ok());
      ASSERT_NO_FATAL_FAILURE(fill(db.get(), values.back()));
      if (is_compacted) {
        ASSERT_NO_FATAL_FAILURE(fill(db.get(), values.back()));
        rocksdb::CompactRangeOptions all;
        all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
        ASSERT_TRUE(db->CompactRange(all, nullptr, nullptr).ok());
      }
      ASSERT_TRUE(engine->CreateNewBackup(db.get()).ok());
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    SCOPED_TRACE(values[i]);
    const std::string path = folder_ / ("restored" + values[i]);
    options_.wal_dir.clear();
    const auto number = static_cast<rocksdb::BackupID>(i + 1);
    ASSERT_TRUE(engine->RestoreDBFromBackup(number, path, path).ok());
    std::unique_ptr<rocksdb::DB> db;
    const Status status = open("restored" + values[i], &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    std::string value;
    ASSERT_TRUE(db->Get({}, std::to_string(10'000 + kKeys / 2), &value).ok());
    EXPECT_EQ(value, values[i]);
  }
}

}  // namespace breccia::testing
