#include <breccia/options.h>
#include <breccia/rocks.h>
#include <breccia/store.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/random.h"
#include "cli/commands.h"
#include "console/exit_codes.h"
#include "console/text.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "unit/cli/run_words.h"
#include "wal/format.h"

/// `breccia db` beside ldb and a model. The store of these tests has families, all operations and
/// keys with any bytes.

namespace breccia::cli {
namespace {

namespace fs = std::filesystem;
using testing::Folder;
using testing::Place;

/// Runs `breccia db WORDS`.
Outcome run_db(std::vector<std::string> words) {
  console::App app("test");
  const console::Command db = cli::add_db(&app);
  const std::vector<console::Command> commands = cli::add_db_commands(db.app);
  words.insert(words.begin(), "db");
  return run_words(&app, commands, words);
}

bool have_ldb() { return std::system("ldb --version >/dev/null 2>&1") == 0; }

/// What ldb prints.
std::string run_ldb(const std::vector<std::string>& words) {
  std::string line = "LSAN_OPTIONS= ldb";
  for (const std::string& word : words) line += " '" + word + "'";
  FILE* const pipe = popen((line + " 2>/dev/null").c_str(), "r");
  std::string text;
  std::array<char, 4096> piece{};
  for (std::size_t got = 0; (got = fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
    text.append(piece.data(), got);
  }
  pclose(pipe);
  return text;
}

/// Every file below `folder`, and what it holds; sparse files by their first and last data.
std::map<std::string, std::string> bytes_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string bytes(std::min<std::uintmax_t>(entry.file_size(), 1 << 20), '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    files[entry.path().string()] = std::to_string(entry.file_size()) + bytes;
  }
  return files;
}

/// A store under test and what it should hold.
class DbTest : public ::testing::Test {
 protected:
  using Model = std::map<std::string, std::string>;

  void open() {
    rocksdb::Options options;
    options.create_if_missing = options.create_missing_column_families = true;
    options.write_buffer_size = 1 << 20;
    rocksdb::ColumnFamilyOptions numbers;
    ASSERT_TRUE(
        rocksdb::MergeOperator::CreateFromString({}, "stringappend", &numbers.merge_operator).ok());
    rocksdb::DB* db = nullptr;
    const Status status =
        Rocks::Open(options, path(), {{"default", options}, {"other", numbers}}, &handles_, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_.reset(db);
  }
  void close() {
    for (auto* handle : handles_) ASSERT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    handles_.clear();
    db_.reset();
  }
  void TearDown() override { close(); }

  /// Writes batches of all operations to both families.
  void write(base::Random* random, int batches) {
    for (int i = 0; i < batches; ++i) {
      rocksdb::WriteBatch batch;
      for (std::uint64_t n = 1 + random->below(200); n > 0; --n) add(random, &batch);
      ASSERT_TRUE(db_->Write({}, &batch).ok());
    }
  }

  [[nodiscard]] std::string path() const { return folder_ / "db"; }
  [[nodiscard]] std::string flag() const { return "--db=" + path(); }
  [[nodiscard]] static std::vector<std::string> families() { return {"default", "other"}; }
  Model& model(int family) { return models_[family]; }

  [[nodiscard]] std::string expected_scan(int family) {
    std::string text;
    for (const auto& [key, value] : models_[family]) {
      text += console::to_hex(key) + " : " + console::to_hex(value) + "\n";
    }
    return text;
  }
  [[nodiscard]] Outcome scan(const std::string& db, int family) const {
    return run_db({"scan", "--db=" + db, "--hex", "--column_family=" + families()[family]});
  }

  const Folder folder_{Place::kMemory};
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  bool any_bytes_ = true;  // in keys

 private:
  void add(base::Random* random, rocksdb::WriteBatch* batch) {
    const int family = static_cast<int>(random->below(2));
    Model& model = models_[family];
    auto* const handle = handles_[family];
    const std::string key = new_key(random);
    const std::string value = "v" + std::to_string(random->below(1000)) + std::string(1, '\0');
    switch (random->below(8)) {
      case 0:
        EXPECT_TRUE(batch->Delete(handle, key).ok());
        model.erase(key);
        break;
      case 1:
        EXPECT_TRUE(batch->SingleDelete(handle, key).ok());
        model.erase(key);
        break;
      case 2: {
        const std::string end = key + std::string(1, '\x20');
        EXPECT_TRUE(batch->DeleteRange(handle, key, end).ok());
        model.erase(model.lower_bound(key), model.lower_bound(end));
        break;
      }
      case 3:
        if (family == 1) {
          EXPECT_TRUE(batch->Merge(handle, key, value).ok());
          model[key] = model.contains(key) ? model[key] + "," + value : value;
          break;
        }
        [[fallthrough]];
      default:
        EXPECT_TRUE(batch->Put(handle, key, value).ok());
        model[key] = value;
    }
  }

  [[nodiscard]] std::string new_key(base::Random* random) const {
    std::string key =
        "k" + std::to_string(random->below(10)) + "." + std::to_string(random->below(50));
    if (any_bytes_ && random->one_in(8)) key += std::string("\0\xff", 2);
    return key;
  }

  std::array<Model, 2> models_;
};

// Goal: scan and dump show what was flushed and what was not, merged.
// Method: a seed's batches before and after a flush; both commands against a model, bounds too.
// Mutation: reading the tree alone, or the log without its range deletions, fails.
TEST_F(DbTest, ScanAndDumpShowWhatIsNotFlushed) {
  for (const std::uint64_t seed : testing::seeds_to_run(4)) {
    SCOPED_TRACE("seed=" + std::to_string(seed));
    base::Random random(seed);
    open();
    write(&random, 20);
    ASSERT_TRUE(db_->Flush({}).ok());
    write(&random, 20);
    close();
    for (int family = 0; family < 2; ++family) {
      const Outcome all = scan(path(), family);
      EXPECT_EQ(all.code, console::kExitOk) << all.err;
      EXPECT_EQ(all.out, expected_scan(family));
      std::string expected;
      int keys = 0;
      for (auto at = model(family).lower_bound("k3"); at != model(family).lower_bound("k5"); ++at) {
        if (++keys <= 7)
          expected += console::to_hex(at->first) + " ==> " + console::to_hex(at->second) + "\n";
      }
      expected += fmt::format("Keys in range: {}\n", std::min(keys, 7));
      EXPECT_EQ(run_db({"dump", flag(), "--hex", "--from=" + console::to_hex("k3"),
                        "--to=" + console::to_hex("k5"), "--max_keys=7",
                        "--column_family=" + families()[family]})
                    .out,
                expected);
    }
  }
}

// Goal: on a store without anything unflushed, the output is ldb's to the byte.
// Method: the same words for both programs, all flags of scan and dump.
// Mutation: another separator, an end that is inclusive, another histogram fails.
TEST_F(DbTest, SameAsLdb) {
  if (!have_ldb()) GTEST_SKIP() << "ldb is not installed (Debian: rocksdb-tools)";
  any_bytes_ = false;  // ldb ends a key that is not in hexadecimal at its first zero
  base::Random random(11);
  open();
  write(&random, 30);
  ASSERT_TRUE(db_->Flush({}).ok());
  close();
  const std::vector<std::vector<std::string>> lines = {
      {"scan", "--hex"},
      {"scan", "--key_hex", "--no_value"},
      {"scan", "--value_hex", "--from=k1", "--to=k4", "--max_keys=9"},
      {"scan", "--hex", "--max_keys=0"},
      {"scan", "--hex", "--from=0x6B35"},
      {"dump", "--hex"},
      {"dump", "--hex", "--max_keys=0"},
      {"dump", "--key_hex", "--count_only"},
      {"dump", "--count_delim"},
      {"dump", "--count_delim=1", "--to=k7"},
      {"dump", "--hex", "--from=0x6B32", "--to=0x6B36", "--max_keys=12"},
      {"checkconsistency"},
  };
  for (std::vector<std::string> words : lines) {
    for (const std::string& family : families()) {
      std::vector<std::string> all = words;
      all.push_back(flag());
      if (words[0] != "checkconsistency") all.push_back("--column_family=" + family);
      SCOPED_TRACE(fmt::format("{}", fmt::join(all, " ")));
      const Outcome ours = run_db(all);
      EXPECT_EQ(ours.code, console::kExitOk) << ours.err;
      EXPECT_EQ(ours.out, run_ldb(all));
    }
  }
}

// Goal: dump_wal prints each frame with its place and operations, in ldb's words.
// Method: one batch of every operation, written out.
// Mutation: a family that is carried over to the next frame, or a wrong offset, fails.
TEST_F(DbTest, DumpWal) {
  open();
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(batch.Put(handles_[0], "a", "1").ok());
  ASSERT_TRUE(batch.Delete(handles_[0], "b").ok());
  ASSERT_TRUE(batch.SingleDelete(handles_[1], "c").ok());
  ASSERT_TRUE(batch.Merge(handles_[1], "d", "2").ok());
  ASSERT_TRUE(batch.DeleteRange(handles_[1], "e", "f").ok());
  ASSERT_TRUE(db_->Write({}, &batch).ok());
  ASSERT_TRUE(db_->Put({}, "g", "3").ok());
  close();
  const Outcome values = run_db({"dump_wal", flag(), "--header", "--print_value"});
  EXPECT_EQ(values.code, console::kExitOk) << values.err;
  std::vector<std::string> lines;
  std::istringstream text(values.out);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_GE(lines.size(), 3U) << values.out;
  EXPECT_EQ(lines[0], "Position,Count,ByteSize,Physical Offset,Checksum,Key(s) : value ");
  EXPECT_TRUE(lines[1].starts_with("67108928,5,160,64,0x")) << lines[1];
  const std::string operations = lines[1].substr(lines[1].rfind(",") + 1);
  const std::string id = std::to_string(1 + 1);  // 1 is the hidden family
  EXPECT_EQ(operations, "PUT(0) : 0x61 : 0x31 DELETE(0) : 0x62 SINGLE_DELETE(" + id +
                            ") : 0x63 MERGE(" + id + ") : 0x64 : 0x32 DELETE_RANGE(" + id +
                            ") : 0x65 0x66 ");
  EXPECT_TRUE(lines[2].starts_with("67109088,1,80,224,0x")) << lines[2];
  EXPECT_TRUE(lines[2].ends_with(",PUT(0) : 0x67 : 0x33 ")) << lines[2];
  // The same from the file alone, in whose name nobody must believe.
  fs::copy_file(path() + "/log/00000000000067108864.log", folder_ / "copy");
  EXPECT_EQ(
      run_db({"dump_wal", "--walfile=" + (folder_ / "copy"), "--header", "--print_value"}).out,
      values.out);
  // A header that says that the segment lies nowhere is damage, too.
  {
    std::fstream file(folder_ / "copy", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offsetof(wal::SegmentHeader, base));
    file.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  }
  EXPECT_EQ(run_db({"dump_wal", "--walfile=" + (folder_ / "copy")}).code, console::kExitFailed);
  const std::string placed = run_db({"dump_wal", flag(), "--positions"}).out;
  EXPECT_NE(placed.find("PUT(0) @67109136 : 0x67 "), std::string::npos) << placed;
}

// Goal: stats shows what lies where, and what was counted up to the last closing.
// Method: writes to both families, some flushed; two lives of the store.
// Mutation: counting the tree alone, or reading the statistics of an earlier life, fails.
TEST_F(DbTest, Stats) {
  open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(db_->Put({}, key, "1").ok());
  ASSERT_TRUE(db_->Flush({}).ok());
  close();
  open();
  for (const char* key : {"d", "e"}) ASSERT_TRUE(db_->Put({}, handles_[1], key, "1").ok());
  ASSERT_TRUE(db_->Delete({}, "a").ok());
  close();
  const Outcome stats = run_db({"stats", flag()});
  EXPECT_EQ(stats.code, console::kExitOk) << stats.err;
  for (const char* line :
       {"not flushed: 3 batches, 5 records, ", "** Column family other (id 2) **",
        "in the log: 2 puts, 0 deletes", "in the log: 0 puts, 1 deletes", "files: 1, ",
        "merge operator: StringAppendOperator", "\nbreccia.requests.put COUNT : 2\n",
        "\nbreccia.requests.delete COUNT : 1\n", "** rocksdb.levelstats of other **"}) {
    EXPECT_NE(stats.out.find(line), std::string::npos) << line << "\n" << stats.out;
  }
}

// Goal: damage is named with an exit code, by every command that meets it, and nothing changes.
// Method: flip a byte of a synced frame with a synced one behind it; all bytes before and after.
// Mutation: opening with the engine, which cuts, recycles and makes files, fails.
TEST_F(DbTest, DamageIsReportedAndNothingChanges) {
  open();
  for (const char* key : {"a", "b", "c"}) {
    rocksdb::WriteOptions sync;
    sync.sync = true;
    ASSERT_TRUE(db_->Put(sync, key, "value").ok());
  }
  close();
  const auto untouched = bytes_of(path());
  EXPECT_EQ(run_db({"checkconsistency", flag(), "--verify_checksums"}).out, "OK\n");
  EXPECT_EQ(run_db({"stats", flag()}).code, console::kExitOk);
  EXPECT_EQ(run_db({"dump_wal", flag()}).code, console::kExitOk);
  EXPECT_EQ(run_db({"scan", flag()}).out, "a : value\nb : value\nc : value\n");
  EXPECT_EQ(bytes_of(path()), untouched);
  {
    std::fstream log(path() + "/log/00000000000067108864.log",
                     std::ios::in | std::ios::out | std::ios::binary);
    log.seekp(64 + 50);
    log.put('x');
  }
  const auto damaged = bytes_of(path());
  for (const char* command : {"checkconsistency", "scan", "dump", "stats", "dump_wal"}) {
    const Outcome outcome = run_db({command, flag()});
    EXPECT_EQ(outcome.code, console::kExitFailed) << command;
    EXPECT_NE(outcome.err.find("offset 64"), std::string::npos) << command << outcome.err;
  }
  EXPECT_EQ(bytes_of(path()), damaged);
}

// Goal: files of the tree that are missing or damaged are found.
// Method: remove an SST file; in another store flip a byte of one.
// Mutation: leaving out RocksDB's check of files, or the checksums, fails.
TEST_F(DbTest, DamageOfTheTree) {
  base::Random random(5);
  open();
  write(&random, 10);
  ASSERT_TRUE(db_->Flush({}).ok());
  close();
  const auto sst = [&] {
    for (const auto& entry : fs::directory_iterator(path())) {
      if (entry.path().extension() == ".sst" && entry.file_size() > 2000) return entry.path();
    }
    return fs::path();
  }();
  ASSERT_FALSE(sst.empty());
  {
    std::fstream file(sst, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('\x7f');
  }
  EXPECT_EQ(run_db({"checkconsistency", flag(), "--verify_checksums"}).code, console::kExitFailed);
  fs::remove(sst);
  EXPECT_EQ(run_db({"checkconsistency", flag()}).code, console::kExitFailed);
}

// Goal: a store that is open is not looked at; a missing one is not made.
// Method: look while it is open; look where there is none.
// Mutation: opening without the locks fails.
TEST_F(DbTest, InUseOrMissing) {
  open();
  ASSERT_TRUE(db_->Put({}, "a", "1").ok());
  const Outcome used = run_db({"scan", flag()});
  EXPECT_EQ(used.code, console::kExitFailed);
  EXPECT_NE(used.err.find("another open store"), std::string::npos) << used.err;
  // The lock of the store is still there after that look.
  ASSERT_TRUE(db_->Put({}, "b", "1").ok());
  EXPECT_EQ(run_db({"restore", flag(), "--checkpoint_dir=" + (folder_ / "none")}).code,
            console::kExitFailed);
  close();
  EXPECT_EQ(run_db({"scan", "--db=" + (folder_ / "none")}).code, console::kExitFailed);
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  EXPECT_EQ(run_db({"scan", flag(), "--column_family=none"}).code, console::kExitUsage);
}

// Goal: a checkpoint and a backup hold everything, open as a store and as plain RocksDB, and come
// back over a store that went on.
// Method: copy, write on, restore each; compare with the model as it was.
// Mutation: copying without a flush, or leaving the old log in place, fails.
TEST_F(DbTest, CopiesComeBack) {
  base::Random random(3);
  open();
  write(&random, 10);
  ASSERT_TRUE(db_->Flush({}).ok());
  write(&random, 10);
  close();
  const std::array<std::string, 2> before = {expected_scan(0), expected_scan(1)};
  const std::string checkpoint = folder_ / "checkpoint";
  EXPECT_EQ(run_db({"checkpoint", flag(), "--checkpoint_dir=" + checkpoint}).out, "OK\n");
  EXPECT_EQ(run_db({"backup", flag(), "--backup_dir=" + (folder_ / "backups")}).out,
            "open db OK\nopen backup engine OK\ncreate new backup OK\n");
  for (int family = 0; family < 2; ++family) {
    EXPECT_EQ(scan(checkpoint, family).out, before[family]);
    if (!have_ldb()) continue;
    EXPECT_EQ(
        run_ldb({"scan", "--db=" + checkpoint, "--hex", "--column_family=" + families()[family]}),
        before[family]);
  }
  for (const std::string& from :
       {"--backup_dir=" + (folder_ / "backups"), "--checkpoint_dir=" + checkpoint}) {
    open();
    write(&random, 10);
    close();
    const Outcome restored = run_db({"restore", flag(), from});
    EXPECT_EQ(restored.code, console::kExitOk) << restored.err;
    for (int family = 0; family < 2; ++family) EXPECT_EQ(scan(path(), family).out, before[family]);
    EXPECT_EQ(run_db({"checkconsistency", flag()}).out, "OK\n");
    // As a store: it begins a log of its own.
    Options options;
    options.backend = BackendChoice::kHost;
    std::unique_ptr<Store> store;
    const Status status = Store::Open(options, path(), &store);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(store->Put({}, "new", "1").ok());
    store.reset();
    EXPECT_EQ(run_db({"scan", flag(), "--from=new", "--max_keys=1"}).out, "new : 1\n");
  }
}

}  // namespace
}  // namespace breccia::cli
