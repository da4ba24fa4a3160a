#include "wal/real_files.h"

#include <gtest/gtest.h>

#include <dirent.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "base/assert.h"
#include "base/huge_pages.h"
#include "base/limits.h"
#include "base/random.h"
#include "records.h"
#include "support/folder.h"
#include "support/huge_bytes.h"
#include "support/sparse_files.h"
#include "wal/log.h"

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

std::set<std::uint64_t> open_descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  BRECCIA_ASSERT(folder != nullptr);
  std::set<std::uint64_t> numbers;
  while (const dirent* const entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') numbers.insert(std::strtoull(entry->d_name, nullptr, 10));
  }
  numbers.erase(static_cast<std::uint64_t>(::dirfd(folder)));
  ::closedir(folder);
  return numbers;
}

std::uint64_t descriptor_count() { return open_descriptors().size(); }

/// Lets the process have `more` descriptors beside those that it has.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(std::uint64_t more) {
    BRECCIA_ASSERT(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    // The limit is on their numbers, and there may be gaps.
    const std::set<std::uint64_t> numbers = open_descriptors();
    std::uint64_t end = 0;
    for (std::uint64_t free = 0; free < more || numbers.contains(end); ++end) {
      if (!numbers.contains(end)) ++free;
    }
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(end, before_.rlim_max);
    BRECCIA_ASSERT(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  ~DescriptorLimit() { BRECCIA_ASSERT(::setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_;
};

/// A log in a folder in memory whose files take up only what is written to them, and its frames.
class ManySegments {
 public:
  ManySegments() : folder_(Place::kMemory) {
    options_.dir = folder_ / "log";
    options_.files = breccia::testing::make_sparse_files();
    options_.roll_bytes = 1;  // a segment for each frame
    options_.prepare_ahead = 0;
  }

  Status open() {
    log_.reset();
    replayed_ = testing::Replayed();
    auto opened = Log::open(options_, 0, replayed_.sink(), &replayed_.recovery);
    if (!opened.ok()) return opened.status();
    log_ = opened.take();
    return Status::OK();
  }
  void close() { log_.reset(); }

  Status write(bool sync) {
    const testing::Records records = testing::random_records(&random_, 3);
    BRECCIA_TAKE(const Frame frame, testing::put_frame(log_.get(), records, false));
    BRECCIA_TRY(log_->commit(log_->end(), sync));
    model_.push_back(testing::expected(frame, records));
    return Status::OK();
  }
  [[nodiscard]] bool all_are_there() const { return replayed_.frames == model_; }

 private:
  const Folder folder_;
  LogOptions options_;
  std::unique_ptr<Log> log_;
  testing::Replayed replayed_;
  std::vector<testing::Replayed::One> model_;
  base::Random random_{3};
};

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
      // Other media may know their holes or not; this one does, unless a page holds all of it.
      const bool is_tmpfs = medium_of(folder.path()) == Medium::kTmpfs;
      if (is_tmpfs && !base::gives_huge_pages(folder.path()) && offset < kBytes / 2) {
        EXPECT_LT(used, kBytes / 2);
      }
    }
  }
}

// Goal: a file that is renewed is a new one, with the image that it had; the old one stays as it
//   was. Where there is something at the new place, nothing is changed.
// Method: bytes in the old file, others in the new one; both opened again.
// Mutation: a file that is woken by its old identity, or an image that is made anew, fails.
TEST(WalRealFiles, RenewedFilesKeepTheirImage) {
  const Folder folder(Place::kMemory);
  const auto files = real_files_with(Engine::kPwrite, /*force_buffered=*/true);
  auto file = files->create(folder / "old", kBytes).take();
  std::byte* const image = file->image();
  std::memcpy(image, "old", 3);
  ASSERT_TRUE(file->write(0, 3).ok());
  EXPECT_FALSE(file->is_stale());  // it is young
  file->rest();
  EXPECT_TRUE(file->renew(folder / "old").IsIOError());
  ASSERT_TRUE(file->wake(folder / "old").ok());
  file->rest();
  ASSERT_TRUE(file->renew(folder / "new").ok());
  EXPECT_EQ(file->image(), image);
  std::memcpy(image + 10, "new", 3);
  ASSERT_TRUE(file->write(10, 3).ok());
  ASSERT_TRUE(file->sync(10, 3).ok());
  file->rest();
  ASSERT_TRUE(file->wake(folder / "new").ok());
  const auto old = files->open(folder / "old").take();
  EXPECT_EQ(std::memcmp(old->image(), "old", 3), 0);
  EXPECT_EQ(old->image()[10], std::byte{0});
  const auto renewed = files->open(folder / "new").take();
  EXPECT_EQ(renewed->size(), kBytes);
  EXPECT_EQ(renewed->image()[0], std::byte{0});
  EXPECT_EQ(std::memcmp(renewed->image() + 10, "new", 3), 0);
}

// Goal: it is told where files lie in memory, also of folders that are still to come.
TEST(WalRealFiles, LiesInMemory) {
  for (const Place place : {Place::kMemory, Place::kDisk}) {
    const Folder folder(place);
    struct statfs about;
    ASSERT_EQ(::statfs(folder.path().c_str(), &about), 0);
    EXPECT_EQ(lies_in_memory(folder.path()), about.f_type == TMPFS_MAGIC);
    EXPECT_EQ(lies_in_memory(folder / "not/there"), about.f_type == TMPFS_MAGIC);
  }
}

// Goal: files on tmpfs lie on huge pages, whatever the mount says, when made and when opened again.
// Method: the kernel's account of a file's map, of which each page was touched; what does not fill
//         a huge page is there, too, and everything is zero.
// Mutation: a map at any address, or collapsing what has no page yet.
TEST(WalRealFiles, TmpfsHasHugePages) {
  const Folder folder(Place::kMemory);
  if (!base::gives_huge_pages(folder.path())) GTEST_SKIP() << "none here";
  constexpr std::uint64_t kHuge = 2 << 20;
  const auto files = real_files();
  for (const std::uint64_t bytes : {2 * kHuge, kHuge + kHuge / 2}) {
    const std::string path = folder / std::to_string(bytes);
    for (const bool is_new : {true, false}) {
      const auto file = (is_new ? files->create(path, bytes) : files->open(path)).take();
      ASSERT_EQ(file->size(), bytes);
      EXPECT_TRUE(is_zero(file->image(), file->image() + bytes));
      EXPECT_EQ(breccia::testing::huge_bytes_of_map(path), bytes / kHuge * kHuge);
    }
  }
}

// Goal: a log has as many segments as it likes, synced or not, with 256 descriptors.
// Method: 2,000 segments are written, synced never and then often, opened and written again.
// Mutation: a descriptor or a ring that a segment keeps when it is full, or when it is opened,
// fails.
TEST(WalRealFiles, ThousandsOfSegmentsNeedFewDescriptors) {
  constexpr int kSegments = 2000;
  ManySegments log;
  const std::uint64_t before = descriptor_count();
  const DescriptorLimit limit(256 - std::min<std::uint64_t>(before, 128));
  ASSERT_TRUE(log.open().ok());
  for (int index = 0; index < kSegments; ++index) {
    const Status status = log.write(/*sync=*/index > kSegments / 2);
    ASSERT_TRUE(status.ok()) << index << " " << status.ToString();
  }
  EXPECT_LE(descriptor_count(), before + 8);
  for (int round = 0; round < 2; ++round) {
    const Status status = log.open();
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(log.all_are_there());
    EXPECT_LE(descriptor_count(), before + 8);
    ASSERT_TRUE(log.write(/*sync=*/true).ok());
  }
  log.close();
  EXPECT_EQ(descriptor_count(), before);
}

// Goal: an opening that runs out of descriptors, wherever it does, leaves the log as it was.
// Method: openings with none to spare, one, two and so on until one succeeds; after each, the log
// is opened without a limit. Nothing is written in between.
// Mutation: removing a segment whose folder could not be opened for its sync loses the log.
TEST(WalRealFiles, TooFewDescriptorsHarmNothing) {
  ManySegments log;
  ASSERT_TRUE(log.open().ok());
  for (int index = 0; index < 3; ++index) ASSERT_TRUE(log.write(/*sync=*/true).ok());
  log.close();
  int refused = 0;
  for (std::uint64_t more = 0; more < 64; ++more) {
    Status limited;
    {
      const DescriptorLimit limit(more);
      limited = log.open();
    }
    log.close();
    const Status status = log.open();
    ASSERT_TRUE(status.ok()) << more << " " << status.ToString();
    EXPECT_TRUE(log.all_are_there()) << more;
    log.close();
    if (limited.ok()) break;
    ++refused;
  }
  EXPECT_GT(refused, 1);
  EXPECT_LT(refused, 16);
}

}  // namespace breccia::wal
