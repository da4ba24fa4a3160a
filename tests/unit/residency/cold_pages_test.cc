#include "residency/cold_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/folder.h"

namespace breccia::residency {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPages = 4096;

/// A mapped file of pages that nobody has read, as far as the system forgets them.
class File {
 public:
  explicit File(testing::Place place) : folder_(place) {
    const std::string path = folder_ / "file";
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::string page(kPageBytes, 'p');
    for (std::uint64_t i = 0; i < kPages; ++i) {
      EXPECT_EQ(::write(fd_, page.data(), page.size()), static_cast<ssize_t>(kPageBytes));
    }
    EXPECT_EQ(::fdatasync(fd_), 0);
    (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    at_ = static_cast<char*>(::mmap(nullptr, kPages * kPageBytes, PROT_READ, MAP_SHARED, fd_, 0));
    EXPECT_NE(at_, MAP_FAILED);
    (void)::madvise(at_, kPages * kPageBytes, MADV_RANDOM);
  }
  ~File() {
    ::munmap(at_, kPages * kPageBytes);
    ::close(fd_);
  }
  [[nodiscard]] const char* page(std::uint64_t i) const { return at_ + i * kPageBytes; }
  [[nodiscard]] std::uint64_t cached() const {
    std::vector<unsigned char> flags(kPages);
    EXPECT_EQ(::mincore(at_, kPages * kPageBytes, flags.data()), 0);
    return static_cast<std::uint64_t>(
        std::count_if(flags.begin(), flags.end(), [](unsigned char one) { return one & 1; }));
  }

 private:
  testing::Folder folder_;
  int fd_ = -1;
  char* at_ = nullptr;
};

void read(const File& file, std::uint64_t begin, std::uint64_t end, ColdPages* cold) {
  for (std::uint64_t i = begin; i < end; ++i) {
    EXPECT_EQ(*static_cast<const volatile char*>(file.page(i)), 'p');
    cold->note_read();
  }
}

// Goal: who reads what is not cached is told so, soon; what is asked for comes; and when all is
//   cached nothing is asked for any more.
// Method: a file that the system has forgotten is read in part, asked for in part, and asked for
//   again.
// Mutation: faults of other threads that count, or of before; a look at pages behind the asking.
TEST(ColdPages, AreAskedForWhileTheyAreCold) {
  const File file(testing::Place::kDisk);
  if (file.cached() > kPages / 8) GTEST_SKIP() << "this file system does not forget files";
  ColdPages cold;
  cold.look_anew(/*was_cold=*/false);
  EXPECT_FALSE(cold.is_cold());
  read(file, 0, 1024, &cold);
  EXPECT_TRUE(cold.is_cold());
  // Far from one another: some file systems bring neighbours along.
  constexpr std::uint64_t kAsked = 512;
  const auto asked = [&](std::uint64_t i) { return file.page(2048 + i * 1021 % 2048); };
  const std::uint64_t before = file.cached();
  for (std::uint64_t i = 0; i < kAsked; ++i) cold.ask(asked(i), 100);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (file.cached() < before + kAsked && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(file.cached(), before + kAsked);
  EXPECT_TRUE(cold.is_cold());
  for (std::uint64_t i = 0; i < 5 * kAsked; ++i) cold.ask(asked(i % kAsked), 100);
  EXPECT_FALSE(cold.is_cold());
}

// Goal: what is cached costs no questions, whatever waited before.
// Method: a file in memory, behind faults of another one.
// Mutation: faults since the thread began.
TEST(ColdPages, AreNotAskedForInMemory) {
  const File disk(testing::Place::kDisk);
  ColdPages before;
  read(disk, 0, 100, &before);
  const File file(testing::Place::kMemory);
  ColdPages cold;
  cold.look_anew(/*was_cold=*/false);
  read(file, 0, kPages, &cold);
  cold.look();
  EXPECT_FALSE(cold.is_cold());
}

}  // namespace
}  // namespace breccia::residency
