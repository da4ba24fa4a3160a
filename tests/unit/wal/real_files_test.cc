#include "wal/real_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "support/folder.h"

namespace breccia::wal {
namespace {

using breccia::testing::Folder;
using breccia::testing::Place;

constexpr std::uint64_t kBytes = limits::kLogWindowBytes;

/// Makes a file of kBytes with `text` at its start and at `offset`, and opens it again.
std::unique_ptr<SegmentFile> file_with(const std::string& path, std::uint64_t offset,
                                       const std::string& text) {
  const auto files = real_files();
  {
    auto file = files->create(path, kBytes).take();
    for (const std::uint64_t at : {std::uint64_t{0}, offset}) {
      std::memcpy(file->image() + at, text.data(), text.size());
      EXPECT_TRUE(file->write(at, text.size()).ok());
    }
  }
  return files->open(path).take();
}

bool is_zero(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

// Goal: load() reads what was written and knows from where on there are only zeros.
// Method: a few bytes at the start and behind it, on both media, in a file opened again.
// Mutation: taking the first hole for the end of the data loses what lies behind it.
TEST(WalRealFiles, LoadKnowsWhereZerosBegin) {
  const std::string text = "written";
  for (const Place place : {Place::kMemory, Place::kDisk}) {
    const Folder folder(place);
    for (const std::uint64_t offset : {4096 - 3UL, kBytes / 2 + 5, kBytes - text.size()}) {
      const std::string path = folder / std::to_string(offset);
      SCOPED_TRACE(path);
      const auto file = file_with(path, offset, text);
      const std::uint64_t used = file->load().take();
      EXPECT_EQ(std::memcmp(file->image(), text.data(), text.size()), 0);
      EXPECT_EQ(std::memcmp(file->image() + offset, text.data(), text.size()), 0);
      EXPECT_GE(used, offset + text.size());
      EXPECT_LE(used, kBytes);
      EXPECT_TRUE(is_zero(file->image() + used, file->image() + kBytes));
      // Other media may know their holes or not; this one does.
      if (medium_of(folder.path()) == Medium::kTmpfs && offset < kBytes / 2) {
        EXPECT_LT(used, kBytes / 2);
      }
    }
  }
}

}  // namespace breccia::wal
