#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "pmem/region.h"

namespace breccia::pmem {
namespace {

namespace fs = std::filesystem;

class PmemPaths : public testing::Test {
 protected:
  PmemPaths() {
    std::string name = (fs::temp_directory_path() / "breccia_pmem_XXXXXX").string();
    BRECCIA_ASSERT(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    ::unsetenv("PMEM2_FORCE_GRANULARITY");
  }
  ~PmemPaths() override {
    ::unsetenv("PMEM2_FORCE_GRANULARITY");
    fs::remove_all(folder_);
  }
  static void force(const char* granularity) {
    ::setenv("PMEM2_FORCE_GRANULARITY", granularity, /*overwrite=*/1);
  }
  [[nodiscard]] std::string path(const char* name) const { return folder_ / name; }
  fs::path folder_;
};

// Goal: without DAX, the answer is no, and nothing is left behind.
// Method: page granularity forced, as on an ordinary file system; then a missing folder.
// Mutation: asking libpmem2 for page granularity makes every file system a DAX one.
TEST_F(PmemPaths, NoDaxIsNotSupported) {
  force("PAGE");
  EXPECT_FALSE(supports_dax(folder_));
  EXPECT_TRUE(open_dax_region(path("r"), 4096).status().IsNotSupported());
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_FALSE(supports_dax(path("missing")));
}

// Goal: cache line granularity and the finer byte granularity (persistent caches) are both taken.
// Method: force each in turn; the file exists in the second round.
// Mutation: demanding equality with cache line granularity refuses the second.
TEST_F(PmemPaths, LineAndByteGranularityAreDax) {
  for (const char* granularity : {"CACHE_LINE", "BYTE"}) {
    force(granularity);
    EXPECT_TRUE(supports_dax(folder_));
    auto region = open_dax_region(path("r"), 4096);
    ASSERT_TRUE(region.ok()) << region.status().ToString();
    region.value()->data()[100] = std::byte{7};
    EXPECT_TRUE(region.value()->persist(100, 1).ok());
  }
  EXPECT_EQ(fs::file_size(path("r")), 4096U);
}

// Goal: supports_dax leaves no file.
// Method: look into the folder.
// Mutation: a named temporary file that is not removed shows up.
TEST_F(PmemPaths, ProbeLeavesNothing) {
  force("CACHE_LINE");
  EXPECT_TRUE(supports_dax(folder_));
  EXPECT_TRUE(fs::is_empty(folder_));
}

// Goal: a region is open once at a time, for both kinds.
// Method: open twice, then again after closing.
// Mutation: an open without the lock lets two programs tear one another's log.
TEST_F(PmemPaths, SecondOpenIsBusy) {
  force("CACHE_LINE");
  for (const auto open : {open_dax_region, open_file_region}) {
    const std::string at = path(open == open_dax_region ? "dax" : "file");
    auto first = open(at, 4096);
    ASSERT_TRUE(first.ok());
    EXPECT_TRUE(open(at, 4096).status().IsBusy());
    first.take().reset();
    EXPECT_TRUE(open(at, 4096).ok());
  }
}

// Goal: no other user can read a region, and a planted link leads nowhere.
// Method: mode of the files; a link to another file at the region's path.
// Mutation: mode 0644, or an open that follows links.
TEST_F(PmemPaths, FilesArePrivateAndLinksRefused) {
  ASSERT_TRUE(open_file_region(path("r"), 4096).ok());
  for (const char* name : {"r", "r.redo"}) {
    struct stat facts;
    ASSERT_EQ(::stat(path(name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600U);
  }
  fs::create_symlink(path("r"), path("link"));
  EXPECT_TRUE(open_file_region(path("link"), 4096).status().IsIOError());
}

// Goal: a missing folder and a half-made file of an interrupted creation are handled.
// Method: a path in no folder; a leftover ".new" file with old bytes.
// Mutation: taking the leftover as it is makes a region that is not zero.
TEST_F(PmemPaths, CreationStartsAfresh) {
  EXPECT_TRUE(open_file_region(path("no/folder"), 4096).status().IsNotFound());
  force("CACHE_LINE");
  for (const auto open : {open_dax_region, open_file_region}) {
    const std::string at = path(open == open_dax_region ? "dax" : "file");
    std::ofstream(at + ".new") << std::string(9000, 'x');
    auto region = open(at, 4096);
    ASSERT_TRUE(region.ok());
    EXPECT_EQ(region.value()->data()[10], std::byte{0});
    EXPECT_FALSE(fs::exists(at + ".new"));
  }
}

}  // namespace
}  // namespace breccia::pmem
