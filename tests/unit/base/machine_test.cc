#include "base/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/folder.h"

/// What control groups say of memory, from files like theirs.

namespace breccia::base {

namespace {

class CgroupMemory : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path(folder_ / name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::optional<std::uint64_t> found() const {
    return cgroup_memory_max(folder_ / "cgroup", folder_ / "mount");
  }

  const testing::Folder folder_{testing::Place::kMemory};
};

}  // namespace

// Goal: the least limit of the own group and those above it counts, in version 2.
// Method: groups in each other, one of them without a limit.
// Mutation: the own group alone has more; "max" taken for a number is 0.
TEST_F(CgroupMemory, Version2) {
  write("cgroup", "0::/pods/one/inner\n");
  EXPECT_EQ(found(), std::nullopt);
  write("mount/pods/one/inner/memory.max", "8000\n");
  write("mount/pods/one/memory.max", "max\n");
  EXPECT_EQ(found(), 8000U);
  write("mount/pods/memory.max", "5000\n");
  EXPECT_EQ(found(), 5000U);
  write("mount/memory.max", "9000\n");
  EXPECT_EQ(found(), 5000U);
}

// Goal: so it does in version 1, where memory may share its hierarchy, and the file has another
// name. Method: the same, with other controllers around. Mutation: looking for the whole list of
// controllers finds nothing.
TEST_F(CgroupMemory, Version1) {
  write("cgroup", "5:cpu,cpuacct:/elsewhere\n4:hugetlb,memory:/docker/abc\n0::/\n");
  write("mount/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  write("mount/elsewhere/memory.max", "1\n");
  EXPECT_EQ(found(), 9223372036854771712U);
  write("mount/memory/memory.limit_in_bytes", "7000\n");
  EXPECT_EQ(found(), 7000U);
}

// Goal: a container that sees its own group as the root finds its limit.
// Method: a path that is the host's, and a limit at the root.
// Mutation: the group's own folder alone is not there.
TEST_F(CgroupMemory, OfAContainer) {
  write("cgroup", "0::/kubepods/burstable/pod17\n");
  write("mount/memory.max", "123456\n");
  EXPECT_EQ(found(), 123456U);
  write("cgroup", "0::/\n");
  EXPECT_EQ(found(), 123456U);
}

// Goal: files that are not there, or hold something else, say nothing.
// Method: none, and lines that are none.
// Mutation: a position taken for one that is there throws.
TEST_F(CgroupMemory, NothingToRead) {
  EXPECT_EQ(found(), std::nullopt);
  write("cgroup", "nonsense\n1:memory\n\n");
  EXPECT_EQ(found(), std::nullopt);
  write("cgroup", "0::/one\n");
  write("mount/one/memory.max", "lots\n");
  EXPECT_EQ(found(), std::nullopt);
  EXPECT_GT(usable_memory_bytes(), 0U);
  EXPECT_LE(usable_memory_bytes(), machine_memory_bytes());
}

}  // namespace breccia::base
