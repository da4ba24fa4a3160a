#include "residency/unmapper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pmem/posix_file.h"
#include "support/folder.h"

namespace breccia::residency {

namespace {

std::string maps() {
  std::ifstream in("/proc/self/maps");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::unique_ptr<Unmapper::Mapping> map(const std::string& path) {
  const pmem::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::uint64_t bytes = std::filesystem::file_size(path);
  auto mapping = std::make_unique<Unmapper::Mapping>();
  mapping->data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  mapping->bytes = bytes;
  EXPECT_NE(mapping->data, MAP_FAILED);
  return mapping;
}

}  // namespace

// Goal: all that was given is unmapped when the unmapper ends, by however many threads it came.
// Method: files that were deleted, on a disk; the process's mappings before and behind.
// Mutation: one that is forgotten when another comes at the same time, or at the end, is still
//   there.
TEST(Unmapper, AllIsUnmappedAtItsEnd) {
  const testing::Folder dir(testing::Place::kDisk);
  std::vector<std::unique_ptr<Unmapper::Mapping>> mappings;
  for (int i = 0; i < 40; ++i) {
    const std::string path = dir / ("mapped-" + std::to_string(i));
    std::ofstream(path) << std::string(100'000, 'x');
    mappings.push_back(map(path));
    std::filesystem::remove(path);
  }
  ASSERT_NE(maps().find(dir / "mapped-39"), std::string::npos);
  {
    Unmapper unmapper;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < mappings.size(); i += 4) {
          unmapper.unmap(std::move(mappings[i]));
        }
      });
    }
    threads.clear();
  }
  EXPECT_EQ(maps().find(dir / "mapped-"), std::string::npos);
}

}  // namespace breccia::residency
