#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/sst_file_writer.h>

#include <fstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "console/exit_codes.h"
#include "support/folder.h"
#include "unit/cli/run_words.h"

namespace breccia::cli {
namespace {

using testing::Folder;
using testing::Place;

/// Runs `breccia sst WORDS`.
Outcome run_sst(std::vector<std::string> words) {
  console::App app("test");
  const console::Command sst = cli::add_sst(&app);
  const std::vector<console::Command> commands = cli::add_sst_commands(sst.app);
  words.insert(words.begin(), "sst");
  return run_words(&app, commands, words);
}

/// A table with keys a to d.
void write_table(const std::string& path) {
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions{}, rocksdb::Options{});
  ASSERT_TRUE(writer.Open(path).ok());
  for (const char* const key : {"a", "b", "c"}) {
    ASSERT_TRUE(writer.Put(key, std::string("value ") + key).ok());
  }
  ASSERT_TRUE(writer.Delete("d").ok());
  ASSERT_TRUE(writer.DeleteRange("b", "e").ok());
  ASSERT_TRUE(writer.Finish().ok());
}

// Goal: entries are printed in sst_dump's words, within the range, and range deletions last.
// Method: a table of four keys and a range, whole and in part.
// Mutation: a limit that counts what lies before the range.
TEST(CliSst, Scan) {
  const Folder folder(Place::kMemory);
  write_table(folder / "t.sst");
  EXPECT_EQ(run_sst({"scan", folder / "t.sst"}).out,
            "'a' seq:0, type:1 => value a\n"
            "'b' seq:0, type:1 => value b\n"
            "'c' seq:0, type:1 => value c\n"
            "'d' seq:0, type:0 => \n"
            "'b' seq:0, type:15 => e\n");
  EXPECT_EQ(run_sst({"scan", "--from=b", "--max_keys=1", folder / "t.sst"}).out,
            "'b' seq:0, type:1 => value b\n");
  EXPECT_EQ(run_sst({"scan", "--to=b", "--no_value", folder / "t.sst"}).out, "'a' seq:0, type:1\n");
  EXPECT_EQ(run_sst({"scan", "--hex", "--to=0x62", folder / "t.sst"}).out,
            "'0x61' seq:0, type:1 => 0x76616C75652061\n");
}

// Goal: check names each file that is broken, goes on with the others, and ends with 4.
// Method: a good file, one with a changed byte, one that is not there.
// Mutation: an exit code of the last file alone.
TEST(CliSst, Check) {
  const Folder folder(Place::kMemory);
  write_table(folder / "good.sst");
  write_table(folder / "bad.sst");
  std::fstream(folder / "bad.sst", std::ios::binary | std::ios::in | std::ios::out) << "XY";
  const Outcome good = run_sst({"check", folder / "good.sst"});
  EXPECT_EQ(good.code, console::kExitOk);
  EXPECT_EQ(good.out, (folder / "good.sst") + ": OK, 5 entries in 1 blocks\n");
  const Outcome bad =
      run_sst({"check", folder / "bad.sst", folder / "none.sst", folder / "good.sst"});
  EXPECT_EQ(bad.code, console::kExitFailed);
  EXPECT_EQ(bad.out, good.out);
  EXPECT_NE(bad.err.find("bad.sst"), std::string::npos) << bad.err;
  EXPECT_NE(bad.err.find("checksum"), std::string::npos) << bad.err;
  EXPECT_NE(bad.err.find("none.sst"), std::string::npos) << bad.err;
}

// Goal: show prints properties as people read them.
// Method: names and numbers that are known of the table.
// Mutation: a number that is printed as its bytes.
TEST(CliSst, Show) {
  const Folder folder(Place::kMemory);
  write_table(folder / "t.sst");
  const Outcome shown = run_sst({"show", "--blocks", folder / "t.sst"});
  EXPECT_EQ(shown.code, console::kExitOk);
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"rocksdb.num.entries", "5"},
           {"rocksdb.comparator", "leveldb.BytewiseComparator"},
           {"rocksdb.external_sst_file.version", "2"}}) {
    const std::string line = fmt::format("{:<44} {}\n", name, value);
    EXPECT_NE(shown.out.find(line), std::string::npos) << name << "\n" << shown.out;
  }
  EXPECT_NE(shown.out.find("up to 0x64"), std::string::npos) << shown.out;
  EXPECT_EQ(run_sst({"show", folder / "none.sst"}).code, console::kExitFailed);
}

}  // namespace
}  // namespace breccia::cli
