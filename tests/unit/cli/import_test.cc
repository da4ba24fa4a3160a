#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "console/exit_codes.h"
#include "support/folder.h"

/// `breccia import` as a command.

namespace breccia::cli {
namespace {

using testing::Folder;
using testing::Place;

struct Outcome {
  int code = 0;
  std::string err;
};

/// Runs `breccia import` of tab-separated records into `store` in the folder.
Outcome run_import(const Folder& folder, std::vector<std::string> words) {
  console::App app("test");
  const console::Command import = cli::add_import(&app);
  words.insert(words.begin(), {"import", "--format=tsv", "--db=" + (folder / "store")});
  EXPECT_FALSE(app.parse(words));
  ::testing::internal::CaptureStderr();
  Outcome outcome{import.run(), {}};
  std::fflush(stderr);
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace

// Goal: an import of what cannot be read says so and makes no store.
// Method: a file that is not there, and a folder.
// Mutation: opening the store first leaves one.
TEST(Import, NothingToRead) {
  const Folder folder(Place::kMemory);
  for (const std::string& file : {folder / "none.tsv", folder.path()}) {
    const Outcome outcome = run_import(folder, {"--backend=host", file});
    EXPECT_EQ(outcome.code, console::kExitFailed);
    EXPECT_NE(outcome.err.find("cannot open " + file), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "store"));
  }
}

}  // namespace breccia::cli
