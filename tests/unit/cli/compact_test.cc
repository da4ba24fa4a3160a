#include <breccia/rocks.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table_properties.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <vector>

#include "base/random.h"
#include "cli/commands.h"
#include "console/exit_codes.h"
#include "support/folder.h"
#include "unit/cli/run_words.h"

/// `breccia compact` on databases that RocksDB wrote.

namespace breccia::cli {
namespace {

namespace fs = std::filesystem;
using testing::Folder;
using testing::Place;

/// Runs `breccia compact WORDS`.
Outcome run_compact(std::vector<std::string> words) {
  console::App app("test");
  const console::Command compact = cli::add_compact(&app);
  words.insert(words.begin(), "compact");
  return run_words(&app, {compact}, words);
}

/// The numbers of the line that begins with `name`.
std::vector<std::uint64_t> numbers(const std::string& text, const std::string& name) {
  std::vector<std::uint64_t> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::erase(line, ',');
    const std::regex number("[0-9]+");
    for (std::sregex_iterator at(line.begin(), line.end(), number), end; at != end; ++at) {
      found.push_back(std::stoull(at->str()));
    }
  }
  return found;
}

std::string options_text(const std::string& path) {
  std::string newest;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("OPTIONS-") && name > newest) newest = name;
  }
  std::ostringstream text;
  text << std::ifstream(path + "/" + newest).rdbuf();
  return text.str();
}

class AnOperator final : public rocksdb::AssociativeMergeOperator {
 public:
  [[nodiscard]] const char* Name() const override { return "NobodyElseHasThis"; }
  bool Merge(const Slice& /*key*/, const Slice* /*existing*/, const Slice& value,
             std::string* result, rocksdb::Logger* /*logger*/) const override {
    *result = value.ToString();
    return true;
  }
};

/// A database of RocksDB's with two families, and what it should hold.
class CompactTest : public ::testing::Test {
 protected:
  using Model = std::map<std::string, std::string>;

  void open(const rocksdb::ColumnFamilyOptions& families) {
    rocksdb::DBOptions options;
    options.create_if_missing = options.create_missing_column_families = true;
    options.allow_fallocate = false;
    rocksdb::DB* db = nullptr;
    const Status status = rocksdb::DB::Open(
        options, path(), {{"default", families}, {"other", families}}, &handles_, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_.reset(db);
  }
  void close() {
    for (auto* handle : handles_) ASSERT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    handles_.clear();
    db_.reset();
  }
  void TearDown() override { close(); }

  static rocksdb::ColumnFamilyOptions quiet() {
    rocksdb::ColumnFamilyOptions options;
    options.disable_auto_compactions = true;
    options.compression = rocksdb::kNoCompression;
    return options;
  }

  /// Puts and deletions in several files of each family; the last of them in the log alone.
  void write(std::uint64_t seed) {
    base::Random random(seed);
    for (int file = 0; file < 5; ++file) {
      for (int family = 0; family < 2; ++family) {
        for (int i = 0; i < 4000; ++i) {
          const std::string key = fmt::format("key{:06}", random.below(8000));
          if (random.below(4) == 0) {
            ASSERT_TRUE(db_->Delete({}, handles_[family], key).ok());
            models_[family].erase(key);
          } else {
            const std::string value = fmt::format("{:0200}", random.below(1'000'000));
            ASSERT_TRUE(db_->Put({}, handles_[family], key, value).ok());
            models_[family][key] = value;
          }
        }
        if (file == 4) continue;
        ASSERT_TRUE(db_->Flush({}, handles_[family]).ok());
      }
    }
  }

  void expect_contents() {
    for (int family = 0; family < 2; ++family) {
      const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, handles_[family]));
      Model found;
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        found[at->key().ToString()] = at->value().ToString();
      }
      ASSERT_TRUE(at->status().ok()) << at->status().ToString();
      EXPECT_TRUE(found == models_[family]) << found.size() << " of " << models_[family].size();
    }
    ASSERT_TRUE(db_->VerifyChecksum().ok());
  }

  [[nodiscard]] std::size_t files_of(int family, int level) {
    rocksdb::ColumnFamilyMetaData files;
    db_->GetColumnFamilyMetaData(handles_[family], &files);
    return files.levels[static_cast<std::size_t>(level)].files.size();
  }

  /// Entries of all files: what is read of them once.
  [[nodiscard]] std::uint64_t entries_in_files() {
    std::uint64_t entries = 0;
    for (auto* const handle : handles_) {
      rocksdb::TablePropertiesCollection files;
      EXPECT_TRUE(db_->GetPropertiesOfAllTables(handle, &files).ok());
      for (const auto& [name, properties] : files) entries += properties->num_entries;
    }
    return entries;
  }

  [[nodiscard]] std::string path() const { return folder_ / "db"; }
  [[nodiscard]] std::string flag() const { return "--db=" + path(); }

  const Folder folder_{Place::kMemory};
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::array<Model, 2> models_;
};

// Goal: everything is compacted here, nothing is lost, and the figures are the database's.
// Method: two families with versions and deletions, some of them in RocksDB's log; what RocksDB
//         finds afterwards; the entries that are left are all that came out.
// Mutation: a family that is left out, or a job that RocksDB did and nobody counts, fails.
TEST_F(CompactTest, AllOfADatabase) {
  open(quiet());
  write(/*seed=*/1);
  close();
  const Outcome done = run_compact({flag(), "--backend=host"});
  ASSERT_EQ(done.code, console::kExitOk) << done.err;
  const auto entries = numbers(done.out, "entries: ");
  ASSERT_EQ(entries.size(), 3U) << done.out;
  EXPECT_EQ(entries[0] - entries[1], entries[2]);
  EXPECT_EQ(entries[1], models_[0].size() + models_[1].size());
  // The first one goes where guesses say, the other where the first one's time says.
  const auto jobs = numbers(done.out, "jobs: ");
  ASSERT_EQ(jobs.size(), 3U) << done.out;
  EXPECT_EQ(jobs[0], 0U) << done.out;
  EXPECT_GE(jobs[1], 1U) << done.out;
  EXPECT_EQ(jobs[1] + jobs[2], 2U) << done.out;
  open(quiet());
  expect_contents();
  for (int family = 0; family < 2; ++family) EXPECT_EQ(files_of(family, 0), 0U);
  EXPECT_FALSE(fs::exists(path() + "/breccia-compaction"));
}

// Goal: one family is compacted, in parts, and the other is as it was.
// Method: --family, and four jobs at once; files of level 0 afterwards.
// Mutation: compacting all whatever was named fails.
TEST_F(CompactTest, OneFamilyInParts) {
  open(quiet());
  write(/*seed=*/2);
  close();
  const Outcome done =
      run_compact({flag(), "--backend=host", "--family=other", "--family=other", "--jobs=4"});
  ASSERT_EQ(done.code, console::kExitOk) << done.err;
  EXPECT_EQ(numbers(done.out, "column families: "), std::vector<std::uint64_t>{1});
  EXPECT_EQ(numbers(done.out, "entries: ")[1], models_[1].size()) << done.out;
  open(quiet());
  expect_contents();
  EXPECT_GT(files_of(0, 0), 0U);
  EXPECT_EQ(files_of(1, 0), 0U);
}

// Goal: everything is read, and nothing twice.
// Method: the command on files of level 0, on those it has written, and on both kinds.
// Mutation: leaving the last level alone (kSkip) reads nothing the second time; kForce reads again
//           what this very call has written.
TEST_F(CompactTest, EachEntryIsReadOnce) {
  open(quiet());
  for (const bool has_more : {true, false, true}) {
    if (has_more) write(/*seed=*/3);
    ASSERT_TRUE(db_->Flush({}, handles_).ok());
    const std::uint64_t before = entries_in_files();
    close();
    const Outcome done = run_compact({flag(), "--backend=host"});
    ASSERT_EQ(done.code, console::kExitOk) << done.err;
    const std::uint64_t after = models_[0].size() + models_[1].size();
    EXPECT_EQ(numbers(done.out, "entries: "),
              (std::vector<std::uint64_t>{before, after, before - after}))
        << done.out;
    open(quiet());
  }
  expect_contents();
}

// Goal: what this program cannot do RocksDB does, and the summary says why.
// Method: a family with merge operands, whose operator RocksDB can make by name.
// Mutation: counting only what was done here fails.
TEST_F(CompactTest, LeftToRocksDb) {
  rocksdb::ColumnFamilyOptions options = quiet();
  ASSERT_TRUE(
      rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options.merge_operator).ok());
  open(options);
  write(/*seed=*/4);
  for (int i = 0; i < 100; ++i) {
    const std::string key = fmt::format("merged{:03}", i);
    ASSERT_TRUE(db_->Put({}, handles_[0], key, "a").ok());
    models_[0][key] = "a,b";
  }
  ASSERT_TRUE(db_->Flush({}, handles_[0]).ok());  // one flush of both would merge them
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(db_->Merge({}, handles_[0], fmt::format("merged{:03}", i), "b").ok());
  }
  close();
  const Outcome done = run_compact({flag(), "--backend=host"});
  ASSERT_EQ(done.code, console::kExitOk) << done.err;
  EXPECT_GE(numbers(done.out, "jobs: ")[2], 1U) << done.out;
  EXPECT_NE(done.out.find("left to RocksDB, merge operands: 1\n"), std::string::npos) << done.out;
  EXPECT_EQ(numbers(done.out, "entries: ")[1], models_[0].size() + models_[1].size()) << done.out;
  open(options);
  expect_contents();
}

// Goal: the database's options are what they were.
// Method: the OPTIONS files before and after.
// Mutation: setting the database's max_subcompactions, or max_background_jobs, fails.
TEST_F(CompactTest, OptionsStay) {
  open(quiet());
  write(/*seed=*/5);
  close();
  open(quiet());
  close();
  // But for what says how a process opens it.
  const auto comparable = [&] {
    return std::regex_replace(options_text(path()), std::regex(" *create[^\n]*\n"), "");
  };
  const std::string before = comparable();
  ASSERT_EQ(run_compact({flag(), "--backend=host", "--jobs=3"}).code, console::kExitOk);
  EXPECT_EQ(comparable(), before);
}

// Goal: what cannot be opened as its program would is refused with words, and stays as it is.
// Method: no database; an operator that nobody can make; a family that is not there; one that is
//         open; a store of breccia's.
// Mutation: loading options leniently loses the operator's name.
TEST_F(CompactTest, Refusals) {
  const auto expect_refusal = [&](const std::vector<std::string>& words, int code,
                                  const std::string& reason) {
    const Outcome refused = run_compact(words);
    EXPECT_EQ(refused.code, code) << reason;
    EXPECT_NE(refused.err.find(reason), std::string::npos) << reason << '\n' << refused.err;
  };
  expect_refusal({flag()}, console::kExitFailed, "there is no RocksDB database");
  EXPECT_FALSE(fs::exists(path()));

  rocksdb::ColumnFamilyOptions options = quiet();
  open(options);
  expect_refusal({flag()}, console::kExitFailed, "lock");
  close();
  expect_refusal({flag(), "--family=none"}, console::kExitUsage, "there are: default, other");

  options.merge_operator = std::make_shared<AnOperator>();
  open(options);
  write(/*seed=*/6);
  close();
  const std::string before = options_text(path());
  expect_refusal({flag()}, console::kExitFailed, "NobodyElseHasThis");
  EXPECT_EQ(options_text(path()), before);

  rocksdb::Options of_store;
  of_store.create_if_missing = true;
  rocksdb::DB* store = nullptr;
  ASSERT_TRUE(Rocks::Open(of_store, folder_ / "store", &store).ok());
  delete store;
  expect_refusal({"--db=" + (folder_ / "store")}, console::kExitFailed, "breccia detach");
}

}  // namespace
}  // namespace breccia::cli
