#include <gtest/gtest.h>

#include <fstream>

#include "cli/commands.h"
#include "console/exit_codes.h"
#include "run_words.h"
#include "support/folder.h"

/// import, put, delete and get with --engine=hash.

namespace breccia::cli {
namespace {

Outcome run_on_hash(const testing::Folder& folder, std::vector<std::string> words) {
  console::App app("test");
  const std::vector<console::Command> commands = {add_import(&app), add_put(&app), add_delete(&app),
                                                  add_get(&app)};
  words.insert(words.begin() + 1, {"--engine=hash", "--db=" + (folder / "store")});
  return run_words(&app, commands, words);
}

}  // namespace

// Goal: a store of the hash engine can be filled, changed and asked from the command line.
// Method: an import, then one command after the other, each of which opens the store again.
// Mutation: a flag that is not heeded makes a store of the other engine, and the next one fails.
TEST(HashCommands, FillChangeAndAsk) {
  const testing::Folder folder(testing::Place::kMemory);
  std::ofstream(folder / "records.tsv") << "a\t1\nbb\t2\n";
  const auto run = [&](std::vector<std::string> words) {
    return run_on_hash(folder, std::move(words));
  };
  EXPECT_EQ(run({"get", "a"}).code, console::kExitFailed);  // there is no store yet
  const Outcome imported =
      run({"import", "--format=tsv", "--backend=host", folder / "records.tsv"});
  EXPECT_EQ(imported.code, console::kExitOk) << imported.err;
  EXPECT_EQ(run({"get", "bb"}).out, "2\n");
  EXPECT_EQ(run({"put", "bb", "3"}).out, "OK\n");
  EXPECT_EQ(run({"delete", "a"}).code, console::kExitOk);
  EXPECT_EQ(run({"get", "bb"}).out, "3\n");
  const Outcome gone = run({"get", "a"});
  EXPECT_EQ(gone.code, console::kExitNotFound);
  EXPECT_NE(gone.err.find("no key `a`"), std::string::npos) << gone.err;
}

}  // namespace breccia::cli
