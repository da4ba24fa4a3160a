#include "sst/range_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::sst {
namespace {

using testing::Folder;
using testing::Place;

constexpr std::uint64_t kPiece = 256 << 10;

/// A file with random bytes.
struct File {
  File(std::string at, std::uint64_t count, base::Random* random) : path(std::move(at)) {
    contents.resize(count);
    for (char& c : contents) c = static_cast<char>(random->next());
    std::ofstream(path, std::ios::binary) << contents;
    number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~File() { ::close(number); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string path;
  std::string contents;
  int number = -1;
};

// Goal: ranges of several files arrive whole and in their places, more pieces than are on their way
//       at once among them.
// Method: ranges of sizes about that of a piece, and of forty; each by the reader and by a call of
//         its own; with room between them that must stay as it was.
// Mutation: a piece that is one byte short; a slot that is used twice.
TEST(RangeReader, ReadsRanges) {
  for (const std::uint64_t seed : testing::seeds_to_run(4)) {
    SCOPED_TRACE(seed);
    base::Random random(seed);
    const Folder folder(Place::kMemory);
    const File small(folder / "small", 3 * kPiece + 5, &random);
    const File large(folder / "large", 41 * kPiece + 7, &random);
    const std::uint64_t sizes[] = {0, 1, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece, 40 * kPiece};
    std::vector<std::string> room(sizeof sizes / sizeof *sizes);
    std::vector<FileRange> ranges;
    for (std::size_t i = 0; i < room.size(); ++i) {
      const File& file = sizes[i] > 2 * kPiece ? large : small;
      room[i].assign(sizes[i] + 1, '!');
      ranges.push_back({file.number, random.below(file.contents.size() - sizes[i] + 1), sizes[i],
                        room[i].data(), &file.path});
    }
    const auto expect_right = [&] {
      for (std::size_t i = 0; i < room.size(); ++i) {
        const std::string& contents = sizes[i] > 2 * kPiece ? large.contents : small.contents;
        EXPECT_TRUE(room[i] == contents.substr(ranges[i].offset, sizes[i]) + "!") << i;
        room[i].assign(sizes[i] + 1, '!');
      }
    };
    RangeReader reader;
    io_uring ring{};
    const bool is_allowed = io_uring_queue_init(1, &ring, 0) == 0;
    if (is_allowed) io_uring_queue_exit(&ring);
    EXPECT_EQ(reader.has_ring(), is_allowed);
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_TRUE(reader.read(ranges).ok());
      expect_right();
      EXPECT_EQ(reader.has_ring(), is_allowed);  // it has done it
    }
    for (const FileRange& range : ranges) ASSERT_TRUE(read_range(range).ok());
    expect_right();
  }
}

// Goal: what cannot be read is an error that says which file, and the reader goes on.
// Method: a range behind a file's end among many good ones, and a file that is closed; then good
//         ranges alone.
// Mutation: errors of pieces that are waited for last are dropped.
TEST(RangeReader, SaysWhatIsMissing) {
  base::Random random(1);
  const Folder folder(Place::kMemory);
  const File file(folder / "file", 40 * kPiece, &random);
  const std::string closed = folder / "closed";
  std::string room(80 * kPiece, '!');
  const FileRange good{file.number, 0, file.contents.size(), room.data(), &file.path};
  const FileRange beyond{file.number, 39 * kPiece, 2 * kPiece, room.data() + 40 * kPiece,
                         &file.path};
  const FileRange none{-1, 0, 2 * kPiece, room.data() + 40 * kPiece, &closed};
  RangeReader reader;
  for (const bool is_last : {false, true}) {
    for (const FileRange& bad : {beyond, none}) {
      const std::vector<FileRange> ranges =
          is_last ? std::vector<FileRange>{good, bad} : std::vector<FileRange>{bad, good};
      const Status status = reader.read(ranges);
      EXPECT_TRUE(bad.file < 0 ? status.IsIOError() : status.IsCorruption()) << status.ToString();
      EXPECT_NE(status.ToString().find(*bad.path), std::string::npos) << status.ToString();
      EXPECT_TRUE(read_range(bad).code() == status.code());
      ASSERT_TRUE(reader.read({&good, 1}).ok());
      EXPECT_TRUE(room.compare(0, file.contents.size(), file.contents) == 0);
    }
  }
}

}  // namespace
}  // namespace breccia::sst
