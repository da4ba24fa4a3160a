#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/random.h"
#include "scripted.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::crash {

namespace {

namespace fs = std::filesystem;

using Content = std::map<std::string, std::string>;

/// A closed store whose every write was synced, and its content after each write.
class ClosedStore {
 public:
  ClosedStore() : folder_(testing::Place::kMemory) {
    base::Random random(7);
    contents_.emplace_back();
    for (const bool first_life : {true, false}) {
      std::unique_ptr<Store> store;
      EXPECT_TRUE(Store::Open(quiet_options(), path(), &store).ok());
      for (int i = 0; i < 20; ++i) write(store.get(), &random, 1 + random.below(40));
      if (first_life) {
        EXPECT_TRUE(store->Flush().ok());
        for (int i = 0; i < 10; ++i) write(store.get(), &random, 1 + random.below(40));
      }
      if (!first_life) write(store.get(), &random, 60);
    }
  }

  [[nodiscard]] std::string path() const { return folder_ / "store"; }
  [[nodiscard]] const Content& last() const { return contents_.back(); }
  [[nodiscard]] const Content& before_last() const { return contents_[contents_.size() - 2]; }

 private:
  void write(Store* store, base::Random* random, std::uint64_t count) {
    Content content = contents_.back();
    Batch batch;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string key = fmt::format("key {}", random->below(100));
      if (random->one_in(4)) {
        EXPECT_TRUE(batch.Delete(key).ok());
        content.erase(key);
      } else {
        content[key] = std::string(random->below(60), static_cast<char>('a' + random->below(26)));
        EXPECT_TRUE(batch.Put(key, content[key]).ok());
      }
    }
    EXPECT_TRUE(store->Submit({Durability::kSync}, &batch).ok());
    contents_.push_back(std::move(content));
  }

  const testing::Folder folder_;
  std::vector<Content> contents_;
};

/// The content of an open store, or why it cannot be read.
Status read_all(Store* store, Content* content) {
  for (int i = 0; i < 100; ++i) {
    const std::string key = fmt::format("key {}", i);
    std::string value;
    const Status status = store->Get(key, &value);
    if (status.ok()) (*content)[key] = value;
    if (!status.ok() && !status.IsNotFound()) return status;
  }
  return Status::OK();
}

/// Bytes of the file up to the last one that is not zero.
std::uint64_t used_bytes(int fd) {
  std::string start(256 << 10, '\0');
  EXPECT_GT(::pread(fd, start.data(), start.size(), 0), 0);
  return start.find_last_not_of('\0') + 1;
}

/// Flips one bit of one log file: mostly where something was written, often in the last frames, at
/// times anywhere.
std::string flip_a_bit(const std::string& log, base::Random* random) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(log)) {
    if (entry.path().extension() == ".log") names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  const std::string& name = names[random->below(names.size())];
  const int fd = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  const std::uint64_t used = used_bytes(fd);
  std::uint64_t at = random->below(used);
  if (random->one_in(3)) at = used - 1 - random->below(std::min<std::uint64_t>(used, 1500));
  if (random->one_in(8)) at = random->below(64);
  if (random->one_in(16)) at = random->below(fs::file_size(name));
  char byte = 0;
  EXPECT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(at)), 1);
  byte = static_cast<char>(byte ^ 1 << random->below(8));
  EXPECT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
  ::close(fd);
  return fmt::format("{}, offset {} of {} used", fs::path(name).filename().string(), at, used);
}

}  // namespace

// Goal: a damaged log never gives a wrong answer: all of the data, all but the last write with a
//   report (that one looks like a torn tail), or Corruption.
// Method: one bit of the log of a closed store is flipped, at random, in 600 copies.
// Mutation: leaving the descriptors or the records out of a frame's checksum fails here.
TEST(EngineDamage, FlippedBitsOfTheLog) {
  const ClosedStore closed;
  std::uint64_t whole = 0;
  std::uint64_t without_last = 0;
  std::uint64_t corrupt = 0;
  const auto seeds = testing::seeds_to_run(600);
  for (const std::uint64_t seed : seeds) {
    base::Random random(seed);
    const testing::Folder folder(testing::Place::kMemory);
    testing::copy_sparse(closed.path(), folder / "store");
    SCOPED_TRACE(flip_a_bit(folder / "store/log", &random) + "; " + testing::replay_command(seed));
    std::unique_ptr<Store> store;
    const Status status = Store::Open(quiet_options(), folder / "store", &store);
    if (!status.ok()) {
      ASSERT_TRUE(status.IsCorruption() || status.IsNotSupported()) << status.ToString();
      ++corrupt;
      continue;
    }
    Content found;
    ASSERT_TRUE(read_all(store.get(), &found).ok());
    if (found == closed.last()) {
      ++whole;
    } else {
      ASSERT_EQ(found, closed.before_last());
      ASSERT_FALSE(store->recovery().message.empty());
      ASSERT_GT(store->recovery().dropped_bytes, 0u);
      ++without_last;
    }
  }
  if (seeds.size() >= 100) {
    EXPECT_GT(whole, 0u);
    EXPECT_GT(without_last, 0u);
    EXPECT_GT(corrupt, 0u);
  }
  std::printf("%zu damaged logs: %lu with all data, %lu without the last write, %lu reported\n",
              seeds.size(), whole, without_last, corrupt);
}

}  // namespace breccia::crash
