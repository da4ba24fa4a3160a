#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "preload/settings.h"
#include "program.h"

/// Programs whose compactions alone are breccia's.

namespace breccia::testing {

namespace {

constexpr char kOn[] = "BRECCIA_COMPACTION=1 BRECCIA_COMPACTION_REPORT=1";
constexpr char kNotice[] = "breccia: compacts";
/// Compactions of more than the least that is done here.
constexpr char kMuch[] = " --num=6000 --value_size=1000 --write_buffer_size=1048576 ";

/// The number behind `name` in the report of a program that has ended; -1 if there is none.
std::int64_t figure(const Ran& ran, const std::string& name) {
  const auto lines = matches(ran.err, "\n" + name + ": [0-9]+");
  return lines.empty() ? -1 : std::stoll(lines.back().substr(name.size() + 3));
}

/// Runs db_bench on RocksDB alone and with the service, and expects the same database of RocksDB's.
void expect_compacted(const std::string& flags) {
  SCOPED_TRACE(flags);
  const Folder rocksdb(Place::kMemory);
  const Folder breccia(Place::kMemory);
  db_bench(Library::kRocksDb, rocksdb, flags, "");
  const Ran ours = db_bench(Library::kBreccia, breccia, flags, kOn);
  EXPECT_EQ(ours.err.find(kNotice), 0U) << ours.err;
  EXPECT_GE(figure(ours, "jobs by host"), 1) << ours.err;
  EXPECT_GE(figure(ours, "entries read"), 1) << ours.err;
  EXPECT_FALSE(has_family(breccia, "breccia.watermark"));
  EXPECT_FALSE(std::filesystem::exists(breccia / "db/log"));
  EXPECT_FALSE(std::filesystem::exists(breccia / "db/breccia-compaction"));
  EXPECT_TRUE(contents(rocksdb) == contents(breccia));
  expect_consistent(breccia);
}

}  // namespace

// Goal: a program that is already built has its compactions done here, and its database is what it
//       would be without, down to the entries.
// Method: stock db_bench by each way of opening, twice with one seed; the library's report.
// Mutation: an overload of Open without the service, or one that makes a store, fails; so does a
// TransactionDB of which nobody says that it writes only what is committed.
TEST(PreloadCompaction, DbBench) {
  expect_compacted(std::string("--benchmarks=fillrandom,overwrite,compact") + kMuch);
  expect_compacted(std::string("--benchmarks=fillrandom,deleterandom,compact") + kMuch +
                   "--num_column_families=2");
  expect_compacted(std::string("--benchmarks=fillrandom,compact") + kMuch + "--transaction_db");
}

// Goal: what cannot be done here RocksDB does, and the report says why.
// Method: merge operands.
// Mutation: an answer that is a failure stops the database.
TEST(PreloadCompaction, LeftToRocksDb) {
  const Folder folder(Place::kMemory);
  const Ran ran =
      db_bench(Library::kBreccia, folder,
               std::string("--benchmarks=mergerandom,compact --merge_operator=put") + kMuch, kOn);
  EXPECT_GE(figure(ran, "jobs by RocksDB"), 1) << ran.err;
  EXPECT_NE(ran.err.find("left to RocksDB, "), std::string::npos) << ran.err;
  EXPECT_GT(contents(folder).size(), 0U);
  expect_consistent(folder);
}

// Goal: RocksDB alone opens no store: it would not see what is in the log.
// Method: a store with a log, and a program that would write to it.
// Mutation: opening it all the same fails.
TEST(PreloadCompaction, StoresAreRefused) {
  const Folder folder(Place::kMemory);
  db_bench(Library::kBreccia, folder, "--benchmarks=fillseq", "BRECCIA_FLUSH_AT_CLOSE=0");
  const Ran refused =
      run(Library::kBreccia, folder,
          "db_bench --db=db --benchmarks=overwrite --num=10 --use_existing_db", kOn);
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("is a store of breccia's"), std::string::npos) << refused.err;
  db_bench(Library::kBreccia, folder, "--benchmarks=readrandom --use_existing_db", "");
  EXPECT_EQ(contents(folder).size(), 2000U);
}

// Goal: off is RocksDB alone, quiet is silent, and a wrong value is an error.
// Method: what runs say.
// Mutation: reading BRECCIA_COMPACTION before BRECCIA_PRELOAD fails.
TEST(PreloadCompaction, OffAndQuiet) {
  const Folder folder(Place::kMemory);
  const std::string flags = std::string("--benchmarks=fillrandom,compact") + kMuch;
  const Ran off =
      db_bench(Library::kBreccia, folder, flags, "BRECCIA_PRELOAD=0 " + std::string(kOn));
  EXPECT_EQ(off.err.find("breccia"), std::string::npos) << off.err;
  const Ran quiet =
      db_bench(Library::kBreccia, folder, flags, "BRECCIA_COMPACTION=1 BRECCIA_QUIET=1");
  EXPECT_EQ(quiet.err.find("breccia"), std::string::npos) << quiet.err;
  EXPECT_FALSE(has_family(folder, "breccia.watermark"));
  const Ran wrong = run(Library::kBreccia, folder, "ldb --db=db scan", "BRECCIA_COMPACTION=yes");
  EXPECT_NE(wrong.code, 0);
  EXPECT_NE((wrong.err + wrong.out).find("BRECCIA_COMPACTION is `yes`"), std::string::npos)
      << wrong.err << wrong.out;
}

// Goal: other programs say what they say without the library.
// Method: ldb on a database that it makes, compacts and scans, and on one with times.
// Mutation: options that lose the program's own, as its merge operator, fail.
TEST(PreloadCompaction, Ldb) {
  const std::vector<std::string> script = {"batchput --create_if_missing a 1 b 2 c 3",
                                           "delete b",
                                           "compact",
                                           "create_column_family one",
                                           "--column_family=one put x y",
                                           "--column_family=one compact",
                                           "--column_family=one scan",
                                           "list_column_families",
                                           "scan",
                                           "--ttl --create_if_missing --db=other put a 1",
                                           "--ttl --db=other compact",
                                           "--ttl --db=other scan",
                                           "checkconsistency"};
  std::map<Library, std::string> transcripts;
  for (const Library library : {Library::kRocksDb, Library::kBreccia}) {
    const Folder folder(Place::kMemory);
    for (const std::string& command : script) {
      const Ran ran =
          run(library, folder, "ldb --db=db " + command, "BRECCIA_QUIET=1 BRECCIA_COMPACTION=1");
      transcripts[library] += fmt::format("$ {}\n{}\n{}{}", command, ran.code, ran.out, ran.err);
    }
  }
  EXPECT_EQ(transcripts[Library::kRocksDb], transcripts[Library::kBreccia]);
}

// Goal: the variables reach the settings.
// Method: each value that they may have, and one that they may not.
// Mutation: one variable read in place of the other fails.
TEST(PreloadCompaction, Settings) {
  const auto settings_from = [](const std::map<std::string, std::string>& variables) {
    return preload::read_settings([&](const char* name) {
      const auto at = variables.find(name);
      return at == variables.end() ? nullptr : at->second.c_str();
    });
  };
  const auto none = settings_from({});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value().has_only_compaction);
  EXPECT_FALSE(none.value().reports_compaction);
  const auto on = settings_from({{"BRECCIA_COMPACTION", "1"}});
  ASSERT_TRUE(on.ok());
  EXPECT_TRUE(on.value().has_only_compaction);
  EXPECT_FALSE(on.value().reports_compaction);
  const auto reports = settings_from({{"BRECCIA_COMPACTION_REPORT", "1"}});
  ASSERT_TRUE(reports.ok());
  EXPECT_FALSE(reports.value().has_only_compaction);
  EXPECT_TRUE(reports.value().reports_compaction);
  EXPECT_TRUE(settings_from({{"BRECCIA_COMPACTION", "2"}}).status().IsInvalidArgument());
  EXPECT_TRUE(settings_from({{"BRECCIA_COMPACTION_REPORT", ""}}).status().IsInvalidArgument());
}

}  // namespace breccia::testing
