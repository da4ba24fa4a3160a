#include "wal/sim/sim_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace breccia::wal {
namespace {

std::string content(SimDisk* disk, const std::string& path) {
  auto file = disk->open(path);
  if (!file.ok()) return "(none)";
  std::string bytes(file.value()->size(), '\0');
  EXPECT_EQ(file.value()->read(0, bytes.size(), bytes.data()), bytes.size());
  return bytes;
}

std::unique_ptr<SimGrowing> created(SimDisk* disk, const std::string& path) {
  auto file = disk->create(path);
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return file.take();
}

}  // namespace

// Goal: of a growing file a power cut leaves what was synced; of what came later nothing, all, a
//   beginning, or blocks among zeros, as it is told to; and never other bytes.
// Method: a file that is synced and then grows by five blocks; cuts of copies with all seeds to
// 200. Mutation: a sync without the length, or a cut that leaves the bytes behind the length,
// fails.
TEST(SimFiles, GrowingFilesLoseWhatWasNotSynced) {
  SimDisk disk(SimKind::kBuffered);
  const auto file = created(&disk, "/file");
  const std::string synced(700, 's');
  const std::string all = synced + std::string(2500, 'a');
  ASSERT_TRUE(file->append(synced).ok());
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(disk.files()->sync_dir("/").ok());
  ASSERT_TRUE(file->append(std::string(2500, 'a')).ok());
  const auto left = [&](std::uint64_t seed, Survives survives) {
    const auto copy = disk.clone();
    copy->power_cut(seed, survives);
    return content(copy.get(), "/file");
  };
  EXPECT_EQ(left(1, Survives::kNothing), synced);
  EXPECT_EQ(left(1, Survives::kEverything), all);
  std::set<std::size_t> lengths;
  bool has_hole = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::string tail = left(seed, Survives::kTails);
    EXPECT_EQ(tail, all.substr(0, tail.size()));
    lengths.insert(tail.size());
    const std::string some = left(seed, Survives::kSome);
    ASSERT_GE(some.size(), synced.size());
    EXPECT_EQ(some.substr(0, synced.size()), synced);
    EXPECT_EQ(some.find_first_not_of(std::string("a\0", 2), synced.size()), std::string::npos);
    has_hole = has_hole || some.find(std::string("\0a", 2)) != std::string::npos;
  }
  EXPECT_GT(lengths.size(), 100U);
  EXPECT_TRUE(has_hole);
}

// Goal: what grows again behind a cut shows nothing of what the cut took.
// Method: a cut to the synced length within a block; bytes are added, and a cut loses their block.
// Mutation: a cut that keeps the rest of the last block shows `old` bytes.
TEST(SimFiles, WhatWasCutOffDoesNotComeBack) {
  SimDisk disk(SimKind::kBuffered);
  const auto file = created(&disk, "/file");
  ASSERT_TRUE(disk.files()->sync_dir("/").ok());
  ASSERT_TRUE(file->append(std::string(100, 's')).ok());
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(file->append(std::string(200, 'o')).ok());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto copy = disk.clone();
    copy->power_cut(seed, Survives::kTails);
    auto again = copy->open("/file");
    ASSERT_TRUE(again.ok());
    const std::uint64_t old_bytes = again.value()->size() - 100;
    ASSERT_TRUE(again.value()->append(std::string(200, 'n')).ok());
    copy->power_cut(seed, Survives::kSome);
    const std::string left = content(copy.get(), "/file");
    EXPECT_EQ(left.find('o', 100 + old_bytes), std::string::npos) << seed;
  }
}

// Goal: names of growing files and links are lost as those of segments are; a watcher sees each
//   sync of a file or folder, before and after; one that is ignored says OK and does nothing.
// Method: a file, a link and a folder's sync, watched and then ignored.
// Mutation: a watcher whose copy of before is made behind the effect, or a sync without the length.
TEST(SimFiles, NamesLinksAndWatchers) {
  SimDisk disk(SimKind::kBuffered);
  const auto file = created(&disk, "/file");
  ASSERT_TRUE(file->append("bytes").ok());
  std::vector<std::string> seen;
  disk.watch_syncs([&](SimDisk::SyncSeen sync) {
    sync.before->power_cut(1, Survives::kNothing);
    sync.after->power_cut(1, Survives::kNothing);
    seen.push_back(sync.path + ": " + content(sync.before.get(), "/file") + " " +
                   content(sync.after.get(), "/file"));
  });
  ASSERT_TRUE(disk.files()->sync_dir("/").ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"/: (none) ", "/file:  bytes"}));
  ASSERT_TRUE(disk.link("/file", "/link").ok());
  EXPECT_FALSE(disk.link("/file", "/link").ok());
  EXPECT_TRUE(disk.link("/none", "/other").IsNotFound());
  EXPECT_EQ(content(&disk, "/link"), "bytes");
  disk.ignore_syncs([](const std::string& path) { return path == "/"; });
  ASSERT_TRUE(disk.files()->sync_dir("/").ok());
  EXPECT_EQ(seen.size(), 2U);
  disk.power_cut(1, Survives::kNothing);
  EXPECT_EQ(content(&disk, "/link"), "(none)");
  EXPECT_EQ(content(&disk, "/file"), "bytes");
}

// Goal: a cut that is chosen goes through all that may be left, and each is told from the others by
//   its digest; steps are seen before they happen.
// Method: a file of two blocks, the first written twice, in a folder with an unsynced removal
//   behind its name: three contents by two, and four ways for two names.
// Mutation: a digest without positions or without names, a cut that does not ask of removals behind
//   the prefix, a copy that is made behind the step.
TEST(SimFiles, ChosenCutsGoThroughAll) {
  SimDisk disk(SimKind::kBuffered);
  const auto files = disk.files();
  ASSERT_TRUE(files->create("/old", 512).ok());
  ASSERT_TRUE(files->sync_dir("/").ok());
  const auto file = files->create("/file", 1024);
  ASSERT_TRUE(file.ok());
  std::uint64_t seen = 0;
  disk.watch_steps([&](std::unique_ptr<SimDisk> before) { seen = before->digest(); });
  const auto write = [&](std::uint64_t offset, char byte) {
    const std::uint64_t then = disk.digest();
    std::memset(file.value()->image() + offset, byte, 8);
    ASSERT_TRUE(file.value()->write(offset, 8).ok());
    EXPECT_EQ(seen, then);
    EXPECT_NE(disk.digest(), then);
  };
  write(0, 'a');
  write(0, 'b');
  write(512, 'a');
  ASSERT_TRUE(files->remove("/old").ok());
  std::vector<std::uint64_t> digests;
  std::vector<std::uint64_t> ways;  // the way taken and the number of them, at each fork
  for (bool is_over = false; !is_over;) {
    const auto left = disk.clone();
    std::size_t at = 0;
    left->power_cut([&](std::uint64_t count) {
      if (at == ways.size()) ways.insert(ways.end(), {0, count});
      at += 2;
      return ways[at - 2];
    });
    digests.push_back(left->digest());
    while (!ways.empty() && ways[ways.size() - 2] + 1 == ways.back()) ways.resize(ways.size() - 2);
    is_over = ways.empty();
    if (!is_over) ++ways[ways.size() - 2];
  }
  // Without the name, which takes its blocks along, with the removal and without it; with the name
  // alone, its blocks, with the removal as one behind the prefix; and with both in the prefix.
  EXPECT_EQ(digests.size(), 2U + 2 * 6 + 6);
  std::sort(digests.begin(), digests.end());
  const auto end = std::unique(digests.begin(), digests.end());
  EXPECT_EQ(end - digests.begin(), 2 + 6 + 6);
}

}  // namespace breccia::wal
