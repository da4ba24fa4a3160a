#include <breccia/options.h>
#include <breccia/rocks.h>
#include <breccia/store.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rocksdb/utilities/checkpoint.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "cli/commands.h"
#include "cli/db/restore.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "support/folder.h"
#include "unit/cli/run_words.h"
#include "unit/wal/recorded_calls.h"

/// What the commands do to copies, to what is restored, and to databases that are no stores.

namespace breccia::cli {
namespace {

namespace fs = std::filesystem;
using testing::Folder;
using testing::Place;

/// Runs `breccia WORDS`.
Outcome run(std::vector<std::string> words) {
  console::App app("test");
  const console::Command db = cli::add_db(&app);
  std::vector<console::Command> commands = cli::add_db_commands(db.app);
  for (const auto& add : {cli::add_get, cli::add_multiget, cli::add_put, cli::add_delete,
                          cli::add_import, cli::add_detach}) {
    commands.push_back(add(&app));
  }
  return run_words(&app, commands, words);
}

class CliCopies : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.create_if_missing = true;
    options_.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options_.write_buffer_size = 1 << 20;
  }

  [[nodiscard]] std::string path() const { return folder_ / "db"; }
  [[nodiscard]] std::string flag() const { return "--db=" + path(); }
  [[nodiscard]] std::string copy_flag() const { return "--db=" + (folder_ / "copy"); }

  std::unique_ptr<rocksdb::DB> open_store() {
    rocksdb::DB* db = nullptr;
    const Status status = Rocks::Open(options_, path(), &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }
  std::unique_ptr<rocksdb::DB> open_plain() {
    rocksdb::DB* db = nullptr;
    const Status status = rocksdb::DB::Open(options_, path(), &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }

  const Folder folder_{Place::kMemory};
  rocksdb::Options options_;
};

// Goal: commands on a copy neither see nor change the log of the original, which the copy's OPTIONS
// file names.
// Method: look while the original is open; write and detach when it is closed; then the original.
// Mutation: looking for a log before knowing whose it is refuses the look and replays `later`.
TEST_F(CliCopies, ACopyLeavesTheLogOfItsOriginal) {
  options_.wal_dir = folder_ / "wal";
  auto original = open_store();
  ASSERT_TRUE(original->Put({}, "first", "1").ok());
  rocksdb::Checkpoint* made = nullptr;
  ASSERT_TRUE(rocksdb::Checkpoint::Create(original.get(), &made).ok());
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  ASSERT_TRUE(checkpoint->CreateCheckpoint(folder_ / "copy").ok());
  ASSERT_TRUE(original->Put({}, "later", "2").ok());
  EXPECT_EQ(run({"db", "scan", copy_flag()}).out, "first : 1\n");
  original.reset();
  EXPECT_EQ(run({"get", flag(), "later"}).out, "2\n");
  EXPECT_EQ(run({"db", "scan", copy_flag()}).out, "first : 1\n");
  EXPECT_EQ(run({"get", copy_flag(), "first"}).out, "1\n");
  EXPECT_EQ(run({"get", copy_flag(), "later"}).code, console::kExitNotFound);
  EXPECT_EQ(run({"db", "dump_wal", copy_flag()}).out, "");
  EXPECT_NE(run({"db", "stats", copy_flag()}).out.find("a copy of a store"), std::string::npos);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"detach", copy_flag()},
                                                {"put", copy_flag(), "later", "3"},
                                                {"delete", copy_flag(), "first"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, console::kExitFailed) << words[0];
    EXPECT_NE(outcome.err.find("another store"), std::string::npos) << outcome.err;
  }
  const std::string log_flag = "--wal_dir=" + (folder_ / "log-of-copy");
  EXPECT_EQ(run({"put", copy_flag(), log_flag, "later", "3"}).code, console::kExitOk);
  EXPECT_EQ(run({"get", copy_flag(), log_flag, "later"}).out, "3\n");
  EXPECT_EQ(run({"detach", copy_flag(), log_flag}).out, "OK\n");
  EXPECT_EQ(run({"db", "scan", flag()}).out, "first : 1\nlater : 2\n");
  EXPECT_NE(open_store(), nullptr);
}

// Goal: no command makes a store of a database of RocksDB's unless it is told to.
// Method: a database with entries in a log of RocksDB's elsewhere; reads find them, writes and
//         copies are refused, and RocksDB opens it as before; then --convert, and detach.
// Mutation: opening it with the engine adds a family that its program does not name.
TEST_F(CliCopies, APlainDatabaseStaysPlain) {
  options_.wal_dir = folder_ / "wal";
  ASSERT_TRUE(open_plain()->Put({}, "key", "value").ok());
  std::ofstream(folder_ / "lines") << "a\tb\n";
  EXPECT_EQ(run({"get", flag(), "key"}).out, "value\n");
  EXPECT_EQ(run({"multiget", flag(), "key", "none"}).out, "key\tvalue\n");
  EXPECT_EQ(run({"get", flag(), "none"}).code, console::kExitNotFound);
  const std::vector<std::vector<std::string>> refused = {
      {"put", flag(), "key", "new"},
      {"delete", flag(), "key"},
      {"import", flag(), "--format=tsv", folder_ / "lines"},
      {"db", "backup", flag(), "--backup_dir=" + (folder_ / "backups")},
      {"db", "checkpoint", flag(), "--checkpoint_dir=" + (folder_ / "checkpoint")},
  };
  for (const std::vector<std::string>& words : refused) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, console::kExitFailed) << words[0] << words[1];
    EXPECT_NE(outcome.err.find("--convert"), std::string::npos) << outcome.err;
  }
  std::string value;
  EXPECT_TRUE(open_plain()->Get({}, "key", &value).ok());
  EXPECT_EQ(value, "value");
  EXPECT_EQ(run({"put", flag(), "--convert", "key", "new"}).code, console::kExitOk);
  EXPECT_EQ(run({"put", flag(), "key", "newer"}).code, console::kExitOk);
  EXPECT_EQ(run({"get", flag(), "key"}).out, "newer\n");
  EXPECT_EQ(run({"detach", flag()}).out, "OK\n");
  EXPECT_TRUE(open_plain()->Get({}, "key", &value).ok());
  EXPECT_EQ(value, "newer");
}

// Goal: a restore does not leave a log that would come back over what it restored.
// Method: a store whose log's folder only its program knows; restore without that folder, with
//         another store's, with the right one, and once more where the log is lost.
// Mutation: taking a log that is not found for none prints OK, and the program finds `later`.
TEST_F(CliCopies, RestoreWantsTheLog) {
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.wal_dir = folder_ / "own-log";
  const auto look = [&] {
    std::unique_ptr<Store> store;
    const Status status = Store::Open(options, path(), &store);
    if (!status.ok()) return status.ToString();
    std::string value;
    return std::string(store->Get("later", &value).ok() ? "later" : "first");
  };
  const auto put = [&](const std::string& key) {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, path(), &store).ok());
    ASSERT_TRUE(store->Put({}, key, "1").ok());
  };
  const std::string log_flag = "--wal_dir=" + options.wal_dir;
  const std::string backup_flag = "--backup_dir=" + (folder_ / "backups");
  put("first");
  ASSERT_EQ(run({"db", "backup", flag(), log_flag, backup_flag}).code, console::kExitOk);
  put("later");
  const Outcome unknown = run({"db", "restore", flag(), backup_flag});
  EXPECT_EQ(unknown.code, console::kExitFailed);
  EXPECT_NE(unknown.err.find("--wal_dir"), std::string::npos) << unknown.err;
  EXPECT_EQ(look(), "later");
  {
    Options others = options;
    others.wal_dir = folder_ / "others-log";
    std::unique_ptr<Store> other;
    ASSERT_TRUE(Store::Open(others, folder_ / "other", &other).ok());
  }
  EXPECT_EQ(
      run({"db", "restore", flag(), backup_flag, "--wal_dir=" + (folder_ / "others-log")}).code,
      console::kExitFailed);
  EXPECT_EQ(look(), "later");
  EXPECT_EQ(run({"db", "restore", flag(), backup_flag, log_flag}).code, console::kExitOk);
  EXPECT_EQ(look(), "first");
  put("later");
  fs::remove_all(options.wal_dir);
  EXPECT_EQ(run({"db", "restore", flag(), backup_flag}).code, console::kExitFailed);
  EXPECT_EQ(run({"db", "restore", flag(), backup_flag, log_flag}).code, console::kExitOk);
  EXPECT_EQ(look(), "first");
}

// Goal: when a restore says that it is done, a power cut takes nothing of it.
// Method: the watcher of syncs is told of each file that a step has brought, which is copied past
//         it; of a checkpoint into an empty folder and into a new one.
// Mutation: deleting the fsync of the command leaves the bytes and names of all files; without that
//           of the folder above, the new folder's name.
TEST_F(CliCopies, RestoreSyncsWhatItBrings) {
  ASSERT_TRUE(open_store()->Put({}, "first", "1").ok());
  const std::string checkpoint = folder_ / "checkpoint";
  ASSERT_EQ(run({"db", "checkpoint", flag(), "--checkpoint_dir=" + checkpoint}).code,
            console::kExitOk);
  fs::create_directory(folder_ / "empty");
  for (const std::string& target : {folder_ / "empty", folder_ / "new"}) {
    testing::RecordedCalls calls(folder_.path());
    std::set<std::string> seen;
    const auto tell = [&] {
      if (seen.insert(target).second) calls.named(target);
      for (const auto& entry : fs::directory_iterator(target)) {
        if (!entry.is_regular_file() || !seen.insert(entry.path()).second) continue;
        const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
        calls.wrote(file);
        calls.named(entry.path());
        ::close(file);
      }
      return Status::OK();
    };
    db::CopyFlags flags;
    flags.db.db = target;
    flags.checkpoint_dir = checkpoint;
    ::testing::internal::CaptureStdout();
    const Status status = db::restore(flags, tell);
    std::fflush(stdout);
    ::testing::internal::GetCapturedStdout();
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_GT(seen.size(), 4U);
    EXPECT_EQ(calls.unsynced(), std::vector<std::string>());
  }
}

// Goal: a restore that is cut off leaves what was there, what is restored, or a folder that does
// not open; another restore mends it.
// Method: stop behind each step, from a backup and from a checkpoint; open; restore again.
// Mutation: without the note, a stop behind the log's removal reports a lost log, and one behind
//           the mark's opens without `later`; a note that is taken back before the copy, too.
TEST_F(CliCopies, RestoreMayStopAnywhere) {
  {
    const auto db = open_store();
    ASSERT_TRUE(db->Put({}, "first", "1").ok());
  }
  const std::string backup = folder_ / "backups";
  const std::string checkpoint = folder_ / "checkpoint";
  ASSERT_EQ(run({"db", "backup", flag(), "--backup_dir=" + backup}).code, console::kExitOk);
  ASSERT_EQ(run({"db", "checkpoint", flag(), "--checkpoint_dir=" + checkpoint}).code,
            console::kExitOk);
  ASSERT_TRUE(open_store()->Put({}, "later", "2").ok());
  const std::string before = folder_ / "before";
  testing::copy_sparse(path(), before);
  for (const std::string& source : {backup, checkpoint}) {
    const std::string source_flag =
        (source == backup ? "--backup_dir=" : "--checkpoint_dir=") + source;
    int refusals = 0;
    for (int stop = 1; stop < 100; ++stop) {
      SCOPED_TRACE(source_flag + ", stop " + std::to_string(stop));
      fs::remove_all(path());
      testing::copy_sparse(before, path());
      db::CopyFlags flags;
      flags.db.db = path();
      (source == backup ? flags.backup_dir : flags.checkpoint_dir) = source;
      int steps = 0;
      const auto stop_there = [&] {
        return ++steps == stop ? Status::Aborted("stopped") : Status::OK();
      };
      ::testing::internal::CaptureStdout();
      const Status status = db::restore(flags, stop_there);
      std::fflush(stdout);
      ::testing::internal::GetCapturedStdout();
      ASSERT_TRUE(status.ok() || status.IsAborted()) << status.ToString();
      testing::copy_sparse(path(), folder_ / "opened");
      rocksdb::DB* opened = nullptr;
      const Status there = Rocks::Open(options_, folder_ / "opened", &opened);
      if (there.ok()) {
        std::string value;
        EXPECT_TRUE(opened->Get({}, "first", &value).ok());
        EXPECT_TRUE(opened->Get({}, "later", &value).IsNotFound());
        EXPECT_GE(steps, 5);  // nobody has the old tree without the log
      } else {
        EXPECT_TRUE(there.IsCorruption()) << there.ToString();
        EXPECT_EQ(run({"db", "scan", flag()}).code, console::kExitFailed);
        ++refusals;
      }
      delete opened;
      fs::remove_all(folder_ / "opened");
      const Outcome again = run({"db", "restore", flag(), source_flag});
      EXPECT_EQ(again.code, console::kExitOk) << again.err;
      EXPECT_EQ(run({"db", "scan", flag()}).out, "first : 1\n");
      if (status.ok()) break;
    }
    EXPECT_GE(refusals, 4);
  }
}

}  // namespace
}  // namespace breccia::cli
