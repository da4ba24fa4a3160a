#include "tree/whole_page_env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/huge_pages.h"
#include "base/precedence.h"
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

/// What a file that is written by whole pages asks of the one below.
struct Asked {
  std::uint64_t appends_left = ~std::uint64_t{0};  // the next one fails
  std::uint64_t bytes = 0;
  std::uint64_t range_synced = 0;
  bool has_gap = false;  // a range was synced that does not begin where the last one ended
  int truncations_left = 1000;
  bool range_syncs_fail = false;
};

class Below final : public rocksdb::FSWritableFile {
 public:
  explicit Below(Asked* asked) : asked_(asked) {}

  rocksdb::IOStatus Append(const Slice& data, const rocksdb::IOOptions& /*options*/,
                           rocksdb::IODebugContext* /*debug*/) override {
    if (asked_->appends_left == 0) return rocksdb::IOStatus::NoSpace("full");
    --asked_->appends_left;
    asked_->bytes += data.size();
    return rocksdb::IOStatus::OK();
  }
  using FSWritableFile::Append;
  rocksdb::IOStatus Truncate(std::uint64_t bytes, const rocksdb::IOOptions& /*options*/,
                             rocksdb::IODebugContext* /*debug*/) override {
    if (asked_->truncations_left-- <= 0) return rocksdb::IOStatus::IOError("failed");
    asked_->bytes = bytes;
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& /*options*/,
                          rocksdb::IODebugContext* /*debug*/) override {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Flush(const rocksdb::IOOptions& /*options*/,
                          rocksdb::IODebugContext* /*debug*/) override {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& /*options*/,
                         rocksdb::IODebugContext* /*debug*/) override {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus RangeSync(std::uint64_t offset, std::uint64_t bytes,
                              const rocksdb::IOOptions& /*options*/,
                              rocksdb::IODebugContext* /*debug*/) override {
    EXPECT_LE(offset + bytes, asked_->bytes) << "what is not written yet";
    if (asked_->range_syncs_fail) return rocksdb::IOStatus::IOError("failed");
    asked_->has_gap = asked_->has_gap || offset > asked_->range_synced;
    asked_->range_synced = std::max(asked_->range_synced, offset + bytes);
    return rocksdb::IOStatus::OK();
  }

 private:
  Asked* const asked_;
};

/// A file by whole pages above such a one.
std::unique_ptr<rocksdb::FSWritableFile> file_above(Asked* asked,
                                                    base::Precedence* disk = nullptr) {
  std::unique_ptr<rocksdb::FSWritableFile> file = std::make_unique<Below>(asked);
  write_by_whole_pages(&file, disk);
  return file;
}

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
// Method: the first write to the file below fails, or the second; or one that is to be compared on
//   its way, or a truncation, or a page that is to be on its way.
// Mutation: a page that is written again, or forgotten, fails.
TEST(WholePageEnv, AFailureLasts) {
  const rocksdb::IOOptions options;
  for (const std::uint64_t bytes : {std::uint64_t{10}, kPage - 1, kPage, 3 * kPage}) {
    for (const int how : {0, 1, 2, 3}) {
      if (how == 3 && bytes < kPage) continue;
      Asked asked;
      asked.range_syncs_fail = how == 3;
      asked.appends_left = how >= 2 ? 1000 : bytes < kPage ? 0 : bytes / kPage - 1;
      asked.truncations_left = 0;
      const auto file = file_above(&asked);
      const std::string data(bytes, 'x');
      if (how == 0) {
        EXPECT_EQ(file->Append(data, options, nullptr).ok(), bytes < kPage);
        EXPECT_EQ(file->Sync(options, nullptr).ok(), false);
      } else if (how == 1) {
        asked.appends_left = 0;
        EXPECT_FALSE(file->Append(data, options, rocksdb::DataVerificationInfo(), nullptr).ok());
      } else if (how == 2) {
        EXPECT_TRUE(file->Append(data, options, nullptr).ok());
        EXPECT_FALSE(file->Truncate(1, options, nullptr).ok());
      } else {
        EXPECT_FALSE(file->Append(data, options, nullptr).ok());
        asked.range_syncs_fail = false;
      }
      const std::uint64_t there = asked.bytes;
      asked.appends_left = 1000;
      EXPECT_FALSE(file->Append(std::string(2 * kPage, 'x'), options, nullptr).ok());
      EXPECT_FALSE(file->Append("more", options, nullptr).ok());
      EXPECT_FALSE(file->Sync(options, nullptr).ok());
      EXPECT_FALSE(file->Fsync(options, nullptr).ok());
      EXPECT_FALSE(file->Close(options, nullptr).ok());
      EXPECT_EQ(asked.bytes, there);
    }
  }
}

// Goal: ranges that are to be on their way to the medium are, if later: what was not written yet
//   goes with the next one.
// Method: pieces of a third of a page, each followed by its range, as RocksDB does it.
// Mutation: a range that is cut off and forgotten leaves a gap.
TEST(WholePageEnv, RangesAreSyncedLater) {
  Asked asked;
  const auto file = file_above(&asked);
  const std::string piece(kPage / 3, 'x');
  for (std::uint64_t end = 0; end < 10 * kPage; end += piece.size()) {
    ASSERT_TRUE(file->Append(piece, {}, nullptr).ok());
    ASSERT_TRUE(file->RangeSync(end, piece.size(), {}, nullptr).ok());
    ASSERT_FALSE(asked.has_gap);
    ASSERT_EQ(asked.range_synced, asked.bytes);
  }
  EXPECT_EQ(asked.bytes, 10 * kPage);
}

// Goal: each page is on its way to the medium when it is written, and what is cut off and written
//   again once more.
// Mutation: pages that wait for the sync fail, and such as are not counted behind a truncation.
TEST(WholePageEnv, PagesGoToTheMediumAsTheyCome) {
  Asked asked;
  const auto file = file_above(&asked);
  const std::string page(kPage, 'x');
  for (std::uint64_t end = kPage; end <= 4 * kPage; end += kPage) {
    ASSERT_TRUE(file->Append(page, {}, nullptr).ok());
    ASSERT_EQ(asked.range_synced, end);
  }
  ASSERT_TRUE(file->Truncate(kPage, {}, nullptr).ok());
  asked.range_synced = kPage;
  ASSERT_TRUE(file->Append(page, {}, nullptr).ok());
  EXPECT_EQ(asked.range_synced, 2 * kPage);
  EXPECT_FALSE(asked.has_gap);
}

// Goal: what RocksDB writes with a low priority, and nothing else, gives way to what goes first.
// Method: so much was written beside that the next one would wait for a minute.
// Mutation: a priority that is not kept, or all that give way, fails or takes the minute.
TEST(WholePageEnv, LowPrioritiesGiveWay) {
  base::Precedence disk;
  auto first = std::make_unique<base::Precedence::First>(&disk);
  disk.give_way(60 * base::Precedence::kBesideBytesPerSecond);
  const auto begin = std::chrono::steady_clock::now();
  const std::string page(kPage, 'x');
  Asked usual;
  const auto flushed = file_above(&usual, &disk);
  EXPECT_TRUE(flushed->Append(page, {}, nullptr).ok());
  EXPECT_EQ(usual.bytes, kPage);
  Asked low;
  std::atomic<bool> is_written{false};
  std::jthread compaction([&] {
    const auto file = file_above(&low, &disk);
    file->SetIOPriority(rocksdb::Env::IO_LOW);
    EXPECT_TRUE(file->Append(page, {}, nullptr).ok());
    is_written = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_written);
  first.reset();
  compaction.join();
  EXPECT_EQ(low.bytes, kPage);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

// Goal: a file that is neither synced nor closed has what was appended to it.
// Mutation: a page that goes with the object fails.
TEST(WholePageEnv, GivenUpFilesAreWhole) {
  Asked asked;
  file_above(&asked)->Append("some", {}, nullptr).PermitUncheckedError();
  EXPECT_EQ(asked.bytes, 4U);
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
