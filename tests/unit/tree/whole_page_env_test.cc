#include "tree/whole_page_env.h"

#include <gtest/gtest.h>
#include <rocksdb/file_system.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "base/huge_pages.h"
#include "base/random.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::tree {

namespace {

constexpr std::uint64_t kPage = base::kHugePageBytes;

std::unique_ptr<rocksdb::WritableFile> new_file(const std::string& name) {
  std::unique_ptr<rocksdb::WritableFile> file;
  EXPECT_TRUE(whole_page_env(rocksdb::Env::Default())
                  ->NewWritableFile(name, &file, rocksdb::EnvOptions())
                  .ok());
  return file;
}

std::string contents_of(const std::string& name) {
  std::string contents;
  EXPECT_TRUE(rocksdb::ReadFileToString(rocksdb::Env::Default(), name, &contents).ok());
  return contents;
}

std::string random_bytes(base::Random* random, std::uint64_t bytes) {
  std::string drawn(bytes, '\0');
  for (char& c : drawn) c = static_cast<char>(random->next());
  return drawn;
}

/// While this lasts the process's files get no longer than `bytes`.
class SmallFiles {
 public:
  explicit SmallFiles(std::uint64_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit now{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, signal_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  void (*const signal_)(int);
};

}  // namespace

// Goal: a table has what was appended to it, in order, once it is synced or closed.
// Method: random appends from a byte to three pages, syncs and ranges that are synced between them;
//   its size counts what is not written yet.
// Mutation: what is left of a page that is not written at a sync, or a second page that begins
//   where the first did, fails.
TEST(WholePageEnv, ATableHasWhatWasAppended) {
  const testing::Folder dir(testing::Place::kMemory);
  for (const std::uint64_t seed : testing::seeds_to_run(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::string name = dir / "000001.sst";
    auto file = new_file(name);
    std::string all;
    for (std::uint64_t appends = 1 + random.below(60); appends > 0; --appends) {
      const std::uint64_t most = random.one_in(8) ? 3 * kPage : 100'000;
      const std::string piece = random_bytes(&random, random.below(most));
      ASSERT_TRUE(file->Append(piece).ok());
      all += piece;
      ASSERT_EQ(file->GetFileSize(), all.size());
      if (random.one_in(10)) {
        ASSERT_TRUE(file->RangeSync(0, all.size()).ok());
      }
      if (!random.one_in(10)) continue;
      ASSERT_TRUE((random.one_in(2) ? file->Sync() : file->Fsync()).ok());
      ASSERT_EQ(contents_of(name), all);
    }
    ASSERT_TRUE(file->Close().ok());
    ASSERT_EQ(contents_of(name), all);
  }
}

// Goal: what is written ends where a page does, so that a page comes in one piece; of files that
//   are no tables it is written as it comes.
// Method: the file's size on the medium while pieces of 4 KiB come; behind a sync in the middle
//   of a page as well.
// Mutation: pages that are counted from the last sync on fail.
TEST(WholePageEnv, WritesEndWherePagesDo) {
  const testing::Folder dir(testing::Place::kMemory);
  const std::string name = dir / "000001.sst";
  const std::string piece(4096, 'x');
  auto file = new_file(name);
  std::uint64_t appended = 0;
  std::uint64_t synced = 0;
  for (int i = 0; i < 1500; ++i) {
    ASSERT_TRUE(file->Append(piece).ok());
    appended += piece.size();
    ASSERT_EQ(std::filesystem::file_size(name), std::max(synced, appended / kPage * kPage));
    if (i != 700) continue;
    ASSERT_TRUE(file->Sync().ok());
    synced = appended;
    ASSERT_EQ(std::filesystem::file_size(name), synced);
  }
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(std::filesystem::file_size(name), appended);
  const std::string other = dir / "MANIFEST-000001";
  auto manifest = new_file(other);
  ASSERT_TRUE(manifest->Append(piece).ok());
  EXPECT_EQ(std::filesystem::file_size(other), piece.size());
  ASSERT_TRUE(manifest->Close().ok());
}

// Goal: a medium without room fails the append that finds out, or the sync, and everything behind
//   it: what is there of the page is unknown.
// Method: files may have half a page.
// Mutation: a page that is written again, or forgotten, fails.
TEST(WholePageEnv, AFullMediumIsSaid) {
  const testing::Folder dir(testing::Place::kMemory);
  const std::string name = dir / "000001.sst";
  const SmallFiles small(kPage / 2);
  for (const std::uint64_t bytes : {std::uint64_t{10}, kPage - 1, kPage, 3 * kPage}) {
    auto file = new_file(name);
    const rocksdb::Status appended = file->Append(std::string(bytes, 'x'));
    EXPECT_EQ(appended.ok(), bytes < kPage);
    EXPECT_EQ(file->Sync().ok(), bytes < kPage / 2);
    EXPECT_FALSE(file->Append(std::string(2 * kPage, 'x')).ok());
    EXPECT_FALSE(file->Append("more").ok());
    EXPECT_FALSE(file->Sync().ok());
    EXPECT_FALSE(file->Close().ok());
  }
}

// Goal: only the system's own Env is changed.
TEST(WholePageEnv, OthersStayWhatTheyAre) {
  const std::unique_ptr<rocksdb::Env> other =
      rocksdb::NewCompositeEnv(rocksdb::FileSystem::Default());
  EXPECT_EQ(whole_page_env(other.get()), other.get());
  rocksdb::Env* const own = whole_page_env(rocksdb::Env::Default());
  EXPECT_NE(own, rocksdb::Env::Default());
  EXPECT_EQ(whole_page_env(own), own);
  EXPECT_TRUE(is_system_env(own));
  EXPECT_TRUE(is_system_env(rocksdb::Env::Default()));
  EXPECT_FALSE(is_system_env(other.get()));
}

}  // namespace breccia::tree
