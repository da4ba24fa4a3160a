#include <breccia/rocks.h>
#include <gtest/gtest.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "both.h"
#include "facade/db/options.h"
#include "support/folder.h"
#include "support/refill.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

Given two_families() {
  Given given = usual();
  given.families = {"one", "two"};
  return given;
}

void fill(Db& db, const std::string& value) {
  for (const std::string family : {"default", "one", "two"}) {
    for (const char* key : {"a", "b", "c"}) {
      EXPECT_TRUE(db->Put(kWrite, db.handle(family), key, value).ok());
    }
    EXPECT_TRUE(db->Merge(kWrite, db.handle(family), "m", value).ok());
  }
}

void scan_all(Db& db) {
  for (const char* family : {"default", "one", "two"}) db.scan(family);
}

/// What breccia finds in a folder that somebody else made.
std::vector<std::string> contents_by_breccia(const std::string& path, const Given& given) {
  facade::Descriptors families{{"default", given.family}};
  for (const std::string& name : given.families) families.emplace_back(name, given.family);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const Status status = Rocks::Open(options_of(given, path), path, families, &handles, &opened);
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (!status.ok()) return {};
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::vector<std::string> lines;
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, handle));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      lines.push_back(handle->GetName() + "/" + at->key().ToString() + "=" +
                      at->value().ToString());
    }
    EXPECT_TRUE(at->status().ok());
    EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
  return lines;
}

/// Notes what RocksDB finds in the files of the live database.
void note_files(Db& db) {
  // A compaction may be about to replace files that RocksDB is about to open.
  EXPECT_TRUE(db->DisableFileDeletions().ok());
  for (const auto& line : contents_by_rocksdb(db.path(), db.given())) db.note(line);
  EXPECT_TRUE(db->EnableFileDeletions(false).ok());
}

void write_sst(const std::string& path, const std::string& value) {
  rocksdb::SstFileWriter writer({}, rocksdb::Options());
  EXPECT_TRUE(writer.Open(path).ok());
  for (const char* key : {"b", "d"}) EXPECT_TRUE(writer.Put(key, value).ok());
  EXPECT_TRUE(writer.Finish().ok());
}

}  // namespace

// Goal: after a flush the files alone are the database, for RocksDB, too.
// Method: flushes by all overloads; RocksDB opens the folder beside us; empty flushes.
// Mutation: flushing one family only fails.
TEST(FacadeFiles, Flush) {
  expect_same(
      [](Db& db) {
        fill(db, "1");
        db.note("flush", db->Flush({}));
        db.note("flush", db->Flush({}, db.handle("one")));
        db.note("flush", db->Flush({}, {db.handle("default"), db.handle("two")}));
        db.note("empty", db->Flush({}, std::vector<rocksdb::ColumnFamilyHandle*>{}));
        note_files(db);
        fill(db, "2");
        rocksdb::FlushOptions later;
        later.wait = false;
        later.allow_write_stall = true;
        for (const char* family : {"default", "one", "two"}) {
          db.note("later", db->Flush(later, db.handle(family)));
        }
        std::uint64_t left = 1;
        for (int i = 0; i < 12'000 && left > 0; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          left = 0;
          for (const char* property :
               {"rocksdb.num-entries-active-mem-table", "rocksdb.num-entries-imm-mem-tables"}) {
            std::uint64_t sum = 0;
            EXPECT_TRUE(db->GetAggregatedIntProperty(property, &sum));
            left += sum;
          }
        }
        db.note("left " + std::to_string(left));
        note_files(db);
      },
      two_families());
}

// Goal: the functions for the log answer as RocksDB's do; a locked log holds writes back.
// Method: sync and flush of the log; a writer that starts under the lock and ends behind it.
// Mutation: letting writes pass a locked log fails.
TEST(FacadeFiles, Log) {
  expect_same([](Db& db) {
    EXPECT_TRUE(db->Put(kWrite, "a", "1").ok());
    db.note("sync", db->SyncWAL());
    db.note("flush", db->FlushWAL(false));
    db.note("flush and sync", db->FlushWAL(true));
    db.note("lock", db->LockWAL());
    std::atomic<bool> done{false};
    std::thread writer([&] {
      EXPECT_TRUE(db->Put(kWrite, "b", "1").ok());
      done = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    db.note(done ? "written" : "held back");
    db.note("unlock", db->UnlockWAL());
    writer.join();
    db.get("b");
  });
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  EXPECT_TRUE(db->UnlockWAL().IsInvalidArgument());
  rocksdb::VectorLogPtr logs;
  std::unique_ptr<rocksdb::LogFile> log;
  EXPECT_TRUE(db->GetSortedWalFiles(logs).IsNotSupported());
  EXPECT_TRUE(db->GetCurrentWalFile(&log).IsNotSupported());
}

namespace {

/// Notes the writes of a batch.
class Noting final : public rocksdb::WriteBatch::Handler {
 public:
  explicit Noting(Db* db) : db_(db) {}
  Status PutCF(std::uint32_t family, const Slice& key, const Slice& value) override {
    return note("put", family, key, value);
  }
  Status DeleteCF(std::uint32_t family, const Slice& key) override {
    return note("delete", family, key, "");
  }
  Status SingleDeleteCF(std::uint32_t family, const Slice& key) override {
    return note("single delete", family, key, "");
  }
  Status MergeCF(std::uint32_t family, const Slice& key, const Slice& value) override {
    return note("merge", family, key, value);
  }
  Status DeleteRangeCF(std::uint32_t family, const Slice& begin, const Slice& end) override {
    return note("delete range", family, begin, end);
  }

 private:
  Status note(const std::string& what, std::uint32_t family, const Slice& key, const Slice& value) {
    db_->note(what + (family == 0 ? " default " : " one ") + key.ToString() + " " +
              value.ToString());
    return Status::OK();
  }
  Db* const db_;
};

/// Notes all batches from `sequence` on; the number to go on with.
rocksdb::SequenceNumber note_updates(Db& db, rocksdb::SequenceNumber sequence) {
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  const Status status = db->GetUpdatesSince(sequence, &updates, {});
  db.note("updates", status);
  if (!status.ok()) return sequence;
  for (; updates->Valid(); updates->Next()) {
    rocksdb::BatchResult batch = updates->GetBatch();
    EXPECT_GE(batch.sequence, sequence);
    db.note("batch of " + std::to_string(batch.writeBatchPtr->Count()));
    Noting noting(&db);
    EXPECT_TRUE(batch.writeBatchPtr->Iterate(&noting).ok());
    sequence = batch.sequence + static_cast<std::uint64_t>(batch.writeBatchPtr->Count());
  }
  EXPECT_EQ(sequence, db->GetLatestSequenceNumber() + 1);
  return sequence;
}

}  // namespace

// Goal: a program that follows RocksDB's log sees the same batches here.
// Method: batches of all operations, followed from the start, from the last number on, and over a
//          flush; a number that was not written yet.
// Mutation: numbers that repeat a batch or skip one fail.
TEST(FacadeFiles, UpdatesSince) {
  Given given = usual();
  given.families = {"one"};
  given.db.WAL_ttl_seconds = 3600;
  given.db.WAL_size_limit_MB = 1000;
  expect_same(
      [](Db& db) {
        auto* const one = db.handle("one");
        rocksdb::WriteBatch batch;
        EXPECT_TRUE(batch.Put("a", "1").ok());
        EXPECT_TRUE(batch.Delete("b").ok());
        EXPECT_TRUE(batch.Merge(one, "c", "2").ok());
        EXPECT_TRUE(batch.SingleDelete(one, "d").ok());
        EXPECT_TRUE(batch.DeleteRange(one, "e", "f").ok());
        EXPECT_TRUE(db->Write(kWrite, &batch).ok());
        EXPECT_TRUE(db->Put(kWrite, "g", "3").ok());
        rocksdb::SequenceNumber next = note_updates(db, 0);
        next = note_updates(db, next);  // nothing yet
        EXPECT_TRUE(db->Put(kWrite, one, "h", "4").ok());
        next = note_updates(db, next);
        EXPECT_TRUE(db->Put(kWrite, "i", "5").ok());
        EXPECT_TRUE(db->Flush({}).ok());
        EXPECT_TRUE(db->Put(kWrite, "j", "6").ok());
        next = note_updates(db, next);
        (void)note_updates(db, next - 1);  // the last again
      },
      given);
}

// Goal: a checkpoint holds all that was written before it, and opens with RocksDB and with breccia.
// Method: entries in tree and log, Checkpoint::Create on our database, more writes; then the copy
// is
//         written by breccia, flushed, and read again.
// Mutation: not flushing before the files are listed loses the log's entries.
TEST(FacadeFiles, Checkpoint) {
  expect_same(
      [](Db& db) {
        fill(db, "1");
        EXPECT_TRUE(db->Flush({}).ok());
        fill(db, "2");
        rocksdb::Checkpoint* made = nullptr;
        db.note("create", rocksdb::Checkpoint::Create(db.get(), &made));
        const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
        std::uint64_t sequence = 0;
        db.note("checkpoint", checkpoint->CreateCheckpoint(db.beside("copy"), 0, &sequence));
        db.note("again", checkpoint->CreateCheckpoint(db.beside("copy")));
        fill(db, "3");
        scan_all(db);
        for (const auto& line : contents_by_rocksdb(db.beside("copy"), db.given())) db.note(line);
        for (int opening = 0; opening < 2; ++opening) {
          for (const auto& line : contents_by_breccia(db.beside("copy"), db.given())) db.note(line);
        }
      },
      two_families());
}

// Goal: a copy opens with every option that its store opens with, and gets no family that nobody
//       made.
// Method: options that speak of RocksDB's own memtables and log; a checkpoint is opened, and
//         detached, with the families listed in between.
// Mutation: handing these options to the tree of the copy fails the opening, or leaves a family.
TEST(FacadeFiles, CheckpointWithOptionsOfMemtables) {
  Given given = two_families();
  given.db.persist_stats_to_disk = true;
  given.family.inplace_update_support = true;
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  fill(db, "1");
  rocksdb::Checkpoint* made = nullptr;
  ASSERT_TRUE(rocksdb::Checkpoint::Create(db.get(), &made).ok());
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  const std::string copy = db.beside("copy");
  ASSERT_TRUE(checkpoint->CreateCheckpoint(copy).ok());
  EXPECT_EQ(contents_by_breccia(copy, given).size(), 12U);
  const auto families = [&] {
    std::vector<std::string> names;
    EXPECT_TRUE(rocksdb::DB::ListColumnFamilies(given.db, copy, &names).ok());
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(families(), (std::vector<std::string>{"breccia.watermark", "default", "one", "two"}));
  ASSERT_TRUE(Rocks::Detach(options_of(given, copy), copy, descriptors_of(given)).ok());
  EXPECT_EQ(families(), (std::vector<std::string>{"default", "one", "two"}));
}

// Goal: BackupEngine backs a live database up, again and again, and restores each state.
// Method: two backups with writes between; both restored and read by RocksDB and by breccia.
// Mutation: listing files without the log's entries fails.
TEST(FacadeFiles, Backup) {
  expect_same(
      [](Db& db) {
        rocksdb::BackupEngine* opened = nullptr;
        rocksdb::BackupEngineOptions options(db.beside("backup"));
        ASSERT_TRUE(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), options, &opened).ok());
        const std::unique_ptr<rocksdb::BackupEngine> engine(opened);
        for (const std::string value : {"1", "2"}) {
          fill(db, value);
          db.note("backup", engine->CreateNewBackup(db.get(), value == "1"));
        }
        fill(db, "3");
        for (const rocksdb::BackupID id : {1, 2}) {
          const std::string folder = db.beside("restored" + std::to_string(id));
          db.note("verify", engine->VerifyBackup(id));
          db.note("restore", engine->RestoreDBFromBackup(id, folder, folder));
          for (const auto& line : contents_by_rocksdb(folder, db.given())) db.note(line);
          for (const auto& line : contents_by_breccia(folder, db.given())) db.note(line);
        }
      },
      two_families());
}

// Goal: ingested files hide what was written before and are hidden by what is written after.
// Method: files for one and for several families between writes; snapshots and iterators from
// before;
//         ingest behind a flush, into a dropped family, of a file that is not there.
// Mutation: not flushing first lets older entries win.
TEST(FacadeFiles, Ingest) {
  expect_same(
      [](Db& db) {
        fill(db, "before");
        rocksdb::ReadOptions old;
        old.snapshot = db->GetSnapshot();
        write_sst(db.beside("1.sst"), "file 1");
        write_sst(db.beside("2.sst"), "file 2");
        write_sst(db.beside("3.sst"), "file 3");
        std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
        db.note("ingest", db->IngestExternalFile({db.beside("1.sst")}, {}));
        std::vector<rocksdb::IngestExternalFileArg> args(2);
        args[0].column_family = db.handle("one");
        args[0].external_files = {db.beside("2.sst")};
        args[1].column_family = db.handle("two");
        args[1].external_files = {db.beside("3.sst")};
        db.note("several", db->IngestExternalFiles(args));
        scan_all(db);
        db.scan("default", old);
        for (at->SeekToFirst(); at->Valid(); at->Next()) db.note(at->value().ToString());
        at.reset();
        EXPECT_TRUE(db->Put(kWrite, "b", "after").ok());
        EXPECT_TRUE(db->Merge(kWrite, db.handle("one"), "d", "after").ok());
        scan_all(db);
        db->ReleaseSnapshot(old.snapshot);
        db.reopen();
        scan_all(db);
        db.note("none", db->IngestExternalFile({db.beside("none.sst")}, {}));
        db.note("no files", db->IngestExternalFile(std::vector<std::string>{}, {}));
        EXPECT_TRUE(db->DropColumnFamily(db.handle("one")).ok());
        db.note("dropped", db->IngestExternalFile(db.handle("one"), {db.beside("1.sst")}, {}));
      },
      two_families());
}

// Goal: what was brought in, or taken out, in one life is not hidden in the next by what the log
//   still has of it.
// Method: a value flushed, a file with another ingested; a key flushed, its file deleted; opened
//   again, when clean runs are filled.
// Mutation: a note of the log that stays while files change finds the old value, and the key.
TEST(FacadeFiles, ChangesArePastTheLog) {
  for (const bool deletes : {false, true}) {
    SCOPED_TRACE(deletes ? "DeleteFile" : "IngestExternalFile");
    const Folder folder(Place::kMemory);
    Given given = usual();
    given.clean_bytes = 64 << 20;
    given.family.disable_auto_compactions = true;
    const auto open = [&] {
      rocksdb::DB* opened = nullptr;
      std::vector<rocksdb::ColumnFamilyHandle*> handles;
      const Status status = Rocks::Open(options_of(given, folder / "db"), folder / "db",
                                        {{"default", given.family}}, &handles, &opened);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(opened->DestroyColumnFamilyHandle(handles[0]).ok());
      wait_for_refill(opened);
      return std::unique_ptr<rocksdb::DB>(opened);
    };
    auto db = open();
    ASSERT_TRUE(db->Put(kWrite, "key", "old").ok());
    ASSERT_TRUE(db->Flush({}).ok());
    if (deletes) {
      std::vector<rocksdb::LiveFileMetaData> files;
      db->GetLiveFilesMetaData(&files);
      ASSERT_EQ(files.size(), 1U);
      ASSERT_TRUE(db->DeleteFile(files[0].name).ok());
    } else {
      rocksdb::SstFileWriter writer{rocksdb::EnvOptions(), rocksdb::Options()};
      ASSERT_TRUE(writer.Open(folder / "in.sst").ok());
      ASSERT_TRUE(writer.Put("key", "new").ok());
      ASSERT_TRUE(writer.Finish().ok());
      ASSERT_TRUE(db->IngestExternalFile({folder / "in.sst"}, {}).ok());
    }
    db.reset();
    db = open();
    std::string value;
    const Status found = db->Get({}, "key", &value);
    EXPECT_EQ(found.ok() ? value : "nothing", deletes ? "nothing" : "new");
  }
}

// Goal: a family can be exported and imported under another name.
// Method: export with entries in the log, import, write on top, reopen; a name that is taken.
// Mutation: not showing the imported files to readers fails.
TEST(FacadeFiles, ExportAndImport) {
  expect_same(
      [](Db& db) {
        fill(db, "1");
        rocksdb::Checkpoint* made = nullptr;
        ASSERT_TRUE(rocksdb::Checkpoint::Create(db.get(), &made).ok());
        const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
        rocksdb::ExportImportFilesMetaData* metadata = nullptr;
        db.note("export",
                checkpoint->ExportColumnFamily(db.handle("one"), db.beside("exported"), &metadata));
        const std::unique_ptr<rocksdb::ExportImportFilesMetaData> exported(metadata);
        rocksdb::ColumnFamilyHandle* handle = nullptr;
        db.note("import", db->CreateColumnFamilyWithImport(db.given().family, "imported", {},
                                                           *exported, &handle));
        EXPECT_TRUE(db->Merge(kWrite, handle, "m", "2").ok());
        std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, handle));
        for (at->SeekToFirst(); at->Valid(); at->Next()) {
          db.note(at->key().ToString() + "=" + at->value().ToString());
        }
        at.reset();
        rocksdb::ColumnFamilyHandle* second = nullptr;
        db.note("again", db->CreateColumnFamilyWithImport(db.given().family, "imported", {},
                                                          *exported, &second));
        db.note(second == nullptr ? "none" : "a handle");
        EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
        db.given().families.push_back("imported");
        db.reopen();
        db.scan("imported");
      },
      two_families());
}

// Goal: what is said of files speaks of the user's families and is complete.
// Method: metadata, live files, properties of tables, checks, identities after writes.
// Mutation: listing the hidden family's files fails.
TEST(FacadeFiles, Metadata) {
  expect_same(
      [](Db& db) {
        fill(db, "1");
        std::vector<std::string> files;
        std::uint64_t manifest_size = 0;
        db.note("live", db->GetLiveFiles(files, &manifest_size));
        db.note(files.size() >= 5 && manifest_size > 0 ? "complete" : "incomplete");
        std::vector<rocksdb::LiveFileStorageInfo> infos;
        db.note("storage", db->GetLiveFilesStorageInfo({}, &infos));
        std::vector<rocksdb::LiveFileMetaData> metadata;
        db->GetLiveFilesMetaData(&metadata);
        for (const auto& file : metadata) {
          db.note(file.column_family_name + " " + file.smallestkey + " " + file.largestkey);
        }
        std::vector<rocksdb::ColumnFamilyMetaData> families;
        db->GetAllColumnFamilyMetaData(&families);
        for (const auto& family : families) {
          db.note(family.name + " " + std::to_string(family.file_count));
        }
        rocksdb::ColumnFamilyMetaData one;
        db->GetColumnFamilyMetaData(db.handle("one"), &one);
        db.note(one.name + " " + std::to_string(one.file_count));
        rocksdb::TablePropertiesCollection tables;
        db.note("tables", db->GetPropertiesOfAllTables(db.handle("one"), &tables));
        db.note(std::to_string(tables.size()));
        const rocksdb::Range range("a", "z");
        tables.clear();
        db.note("tables", db->GetPropertiesOfTablesInRange(db.handle("two"), &range, 1, &tables));
        db.note(std::to_string(tables.size()));
        db.note("verify", db->VerifyChecksum());
        db.note("verify files", db->VerifyFileChecksums({}));
        rocksdb::FileChecksumList* const list = rocksdb::NewFileChecksumList();
        db.note("checksums", db->GetLiveFilesChecksumInfo(list));
        delete list;
        std::string identity;
        db.note("identity", db->GetDbIdentity(identity), identity.empty() ? "" : "is there");
        db.note("session", db->GetDbSessionId(identity), identity.empty() ? "" : "is there");
        std::uint64_t created = 0;
        db.note("creation time", db->GetCreationTimeOfOldestFile(&created));
        db.note("disable", db->DisableFileDeletions());
        db.note("enable", db->EnableFileDeletions(false));
        db.note("delete", db->DeleteFile("no such file"));
      },
      two_families());
}

}  // namespace breccia::testing
