#include "wal/sim/sim_files.h"

#include <gtest/gtest.h>

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

}  // namespace breccia::wal
