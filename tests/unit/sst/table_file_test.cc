#include "sst/table_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/huge_pages.h"
#include "base/precedence.h"
#include "base/random.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::sst {

namespace {

constexpr std::uint64_t kPage = base::kHugePageBytes;

std::unique_ptr<TableFile> new_file(const std::string& path, bool by_whole_pages) {
  auto file = create_table_file(path, {by_whole_pages, /*gives_way=*/false});
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return file.take();
}

std::string contents_of(const std::string& path) {
  std::string contents;
  EXPECT_TRUE(rocksdb::ReadFileToString(rocksdb::Env::Default(), path, &contents).ok());
  return contents;
}

/// Where pieces of random lengths begin, and where the last one ends.
std::vector<std::uint64_t> random_cuts(base::Random* random, std::uint64_t bytes) {
  std::vector<std::uint64_t> cuts = {0};
  while (cuts.back() < bytes) {
    const std::uint64_t most = random->one_in(3) ? 3 * kPage : kPage / 8;
    cuts.push_back(std::min(bytes, cuts.back() + 1 + random->below(most)));
  }
  return cuts;
}

}  // namespace

// Goal: a file has what was written to it, whoever wrote which piece when.
// Method: pieces from a byte to three pages long, in random order, by three threads; with whole
//   pages and without.
// Mutation: a page that counts as whole too early, or an end that is left in memory, fails.
TEST(TableFile, ConcurrentPiecesInAnyOrder) {
  const testing::Folder folder(testing::Place::kMemory);
  for (const std::uint64_t seed : testing::seeds_to_run(12)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    std::string all(random.below(12 * kPage), '\0');
    for (std::size_t i = 0; i < all.size(); i += 7) all[i] = static_cast<char>(random.next());
    const std::vector<std::uint64_t> cuts = random_cuts(&random, all.size());
    std::vector<std::size_t> order(cuts.size() - 1);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    const std::string path = folder / std::to_string(seed);
    const auto file = new_file(path, !random.one_in(4));
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = thread; i < order.size(); i += 3) {
          const std::uint64_t begin = cuts[order[i]];
          const std::uint64_t end = cuts[order[i] + 1];
          ASSERT_TRUE(file->write(all.data() + begin, end - begin, begin).ok());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(file->sync().ok());
    ASSERT_EQ(contents_of(path), all);
    std::filesystem::remove(path);
  }
}

// Goal: nothing but whole pages is written before the sync.
// Method: the file's size between pieces.
// Mutation: pieces that are written as they come fail.
TEST(TableFile, PartsOfPagesWait) {
  const testing::Folder folder(testing::Place::kMemory);
  const std::string path = folder / "table";
  const auto file = new_file(path, /*by_whole_pages=*/true);
  const std::string bytes(3 * kPage, 'x');
  ASSERT_TRUE(file->write(bytes.data(), 100, kPage - 100).ok());
  EXPECT_EQ(std::filesystem::file_size(path), 0u);
  ASSERT_TRUE(file->write(bytes.data(), kPage + 50, kPage).ok());
  EXPECT_EQ(std::filesystem::file_size(path), 2 * kPage);
  ASSERT_TRUE(file->write(bytes.data(), kPage - 100, 0).ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(contents_of(path), bytes.substr(0, 2 * kPage + 50));
}

// Goal: what nobody waits for gives way to what goes first on its disk; all else does not.
// Method: so much was written beside that the next one would wait for a minute.
// Mutation: a write that does not ask is over at once; one that asks unasked takes the minute.
TEST(TableFile, WritesGiveWay) {
  const testing::Folder dir(testing::Place::kDisk);
  base::Precedence* const disk = base::Precedence::of_disk(dir.path());
  if (disk == nullptr) GTEST_SKIP() << "the folder lies in memory";
  const std::string page(base::kHugePageBytes, 'x');
  const auto begin = std::chrono::steady_clock::now();
  for (const bool by_whole_pages : {false, true}) {
    const std::string name = dir / std::to_string(by_whole_pages);
    auto first = std::make_unique<base::Precedence::First>(disk);
    disk->give_way(60 * base::Precedence::kBesideBytesPerSecond);
    auto urgent = create_table_file(name + "urgent", {by_whole_pages, /*gives_way=*/false});
    ASSERT_TRUE(urgent.ok());
    EXPECT_TRUE(urgent.value()->write(page.data(), page.size(), 0).ok());
    std::atomic<bool> is_written{false};
    std::jthread writer([&] {
      auto file = create_table_file(name, {by_whole_pages, /*gives_way=*/true});
      ASSERT_TRUE(file.ok());
      EXPECT_TRUE(file.value()->write(page.data(), page.size(), 0).ok());
      is_written = true;
      EXPECT_TRUE(file.value()->sync().ok());
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(is_written);
    first.reset();
    writer.join();
    EXPECT_TRUE(is_written);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace breccia::sst
