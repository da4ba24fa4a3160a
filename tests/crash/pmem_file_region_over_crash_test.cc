#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "crash/pmem_sim_disk.h"
#include "pmem/file_region.h"
#include "pmem/lines.h"
#include "pmem/page_memory.h"

/// File regions over the caller's memory: what a power cut leaves of it is, line by line, what was
/// persisted last or stored since.

namespace breccia::pmem {
namespace {

using Bytes = std::vector<std::byte>;

const std::string kPath = "region";
// Not whole pages and sectors; enough pages for gaps between those that a checkpoint writes.
constexpr std::uint64_t kRegionBytes = 5 * kPageBytes + 3 * kLineBytes;
constexpr std::uint64_t kLines = kRegionBytes / kLineBytes;
// Room for two or three records, so that a short history has checkpoints in it.
constexpr std::uint64_t kRedoBytesMax = 3 * kPageBytes;
constexpr std::uint64_t kExhaustiveMax = 256;
constexpr std::uint64_t kSamples = 16;

/// A region and the memory that it works in, zeros at first.
class Lent {
 public:
  explicit Lent(const std::shared_ptr<Disk>& disk)
      : memory_(PageMemory::allocate(kRegionBytes).take()) {
    auto opened = open_file_region_on(disk, kPath, kRegionBytes, {kRedoBytesMax, bytes()});
    status_ = opened.status();
    if (status_.ok()) region_ = opened.take();
  }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] Region& region() { return *region_; }
  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.data(), kRegionBytes}; }
  [[nodiscard]] Line line(std::uint64_t index) {
    return load_line(memory_.data() + index * kLineBytes);
  }
  [[nodiscard]] Bytes content() { return Bytes(bytes().begin(), bytes().end()); }

 private:
  PageMemory memory_;
  Status status_;
  std::unique_ptr<Region> region_;
};

/// A disk that calls `before` ahead of every write and sync of a file: what others may do while a
/// region works, at moments that a seed fixes.
class InterruptedDisk final : public Disk {
 public:
  explicit InterruptedDisk(std::shared_ptr<SimDisk> below) : below_(std::move(below)) {}
  std::function<void()> before = [] {};

  Result<std::unique_ptr<DiskFile>> open(const std::string& path) override {
    return wrap(below_->open(path));
  }
  Result<std::unique_ptr<DiskFile>> create(const std::string& path, std::uint64_t bytes) override {
    return wrap(below_->create(path, bytes));
  }
  Status rename(const std::string& from, const std::string& to) override {
    return below_->rename(from, to);
  }
  Status sync_folder_of(const std::string& path) override { return below_->sync_folder_of(path); }

 private:
  class File final : public DiskFile {
   public:
    File(InterruptedDisk* disk, std::unique_ptr<DiskFile> below)
        : disk_(disk), below_(std::move(below)) {}
    Result<std::uint64_t> size() override { return below_->size(); }
    Status read(std::uint64_t offset, std::span<std::byte> into) override {
      return below_->read(offset, into);
    }
    Status write(std::uint64_t offset, std::span<const std::byte> from) override {
      disk_->before();
      return below_->write(offset, from);
    }
    Status sync() override {
      disk_->before();
      return below_->sync();
    }

   private:
    InterruptedDisk* disk_;
    std::unique_ptr<DiskFile> below_;
  };
  Result<std::unique_ptr<DiskFile>> wrap(Result<std::unique_ptr<DiskFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<DiskFile>(std::make_unique<File>(this, file.take()));
  }

  std::shared_ptr<SimDisk> below_;
};

/// A program that stores at random places, also while the region works, and persists random ranges;
/// it replays from its seed.
class History {
 public:
  /// Runs until `persists` are done or the disk gives up.
  Status run(const std::shared_ptr<SimDisk>& sim, std::uint64_t seed, std::uint64_t persists);
  /// True if each line of `found` is as it was when a persist that covered it was called last, or
  /// as it was at some time since.
  [[nodiscard]] bool allows(const Bytes& found) const;
  /// True if a line of `found` is newer than that.
  [[nodiscard]] bool has_newer(const Bytes& found) const;

 private:
  using Contents = std::vector<Line>;

  void store_somewhere(base::Random& random, Lent& lent);
  Status persist_somewhere(base::Random& random, Lent& lent);
  static Line line_of(const Bytes& found, std::uint64_t index) {
    Line line;
    std::memcpy(&line, found.data() + index * kLineBytes, kLineBytes);
    return line;
  }

  // What each line went through, oldest first, all different: no word is ever stored twice.
  std::vector<Contents> lines_{kLines, Contents{Line{}}};
  std::vector<std::size_t> durable_ = std::vector<std::size_t>(kLines, 0);  // at least that
  std::uint64_t last_word_ = 0;
};

void History::store_somewhere(base::Random& random, Lent& lent) {
  const std::uint64_t stores = 1 + random.below(4);
  for (std::uint64_t i = 0; i < stores; ++i) {
    // A hundred words reach over lines and sectors; most stores are short.
    const std::uint64_t words = 1 + random.below(random.one_in(4) ? 100 : 4);
    const std::uint64_t first = random.below(kRegionBytes / kWordBytes - words + 1);
    for (std::uint64_t at = first; at < first + words; ++at) {
      ++last_word_;
      std::memcpy(lent.bytes().data() + at * kWordBytes, &last_word_, kWordBytes);
    }
  }
  for (std::uint64_t i = 0; i < kLines; ++i) {
    if (const Line now = lent.line(i); now != lines_[i].back()) lines_[i].push_back(now);
  }
}

Status History::persist_somewhere(base::Random& random, Lent& lent) {
  std::vector<std::size_t> durable = durable_;
  std::vector<Range> ranges(1 + random.below(3));
  for (Range& range : ranges) {
    range.bytes = random.below(random.one_in(4) ? kRegionBytes / 2 : 300);
    range.offset = random.below(kRegionBytes - range.bytes + 1);
    const std::uint64_t end = lines_end(range.offset, range.bytes) / kLineBytes;
    for (std::uint64_t i = range.offset / kLineBytes; i < end; ++i) {
      durable[i] = lines_[i].size() - 1;
    }
  }
  BRECCIA_TRY(lent.region().persist(ranges));
  durable_ = std::move(durable);
  return Status::OK();
}

Status History::run(const std::shared_ptr<SimDisk>& sim, std::uint64_t seed,
                    std::uint64_t persists) {
  base::Random random(seed);
  const auto disk = std::make_shared<InterruptedDisk>(sim);
  Lent lent(disk);
  BRECCIA_TRY(lent.status());
  disk->before = [&] {
    if (random.one_in(2)) store_somewhere(random, lent);
  };
  for (std::uint64_t i = 0; i < persists; ++i) {
    store_somewhere(random, lent);
    BRECCIA_TRY(persist_somewhere(random, lent));
  }
  return Status::OK();
}

bool History::allows(const Bytes& found) const {
  for (std::uint64_t i = 0; i < kLines; ++i) {
    const auto oldest = lines_[i].begin() + static_cast<std::ptrdiff_t>(durable_[i]);
    if (std::find(oldest, lines_[i].end(), line_of(found, i)) == lines_[i].end()) return false;
  }
  return true;
}

bool History::has_newer(const Bytes& found) const {
  for (std::uint64_t i = 0; i < kLines; ++i) {
    if (line_of(found, i) != lines_[i][durable_[i]]) return true;
  }
  return false;
}

/// Recoveries checked so far, and those that showed stores whose persist nobody had been told of: a
/// test that checks few would pass for the wrong reason.
std::uint64_t recoveries = 0;
std::uint64_t newer_seen = 0;

/// Opens what a crash left and answers its content.
std::optional<Bytes> recover(const std::shared_ptr<SimDisk>& disk, const History& history) {
  Lent lent(disk);
  EXPECT_TRUE(lent.status().ok()) << lent.status().ToString();
  if (!lent.status().ok()) return std::nullopt;
  Bytes found = lent.content();
  EXPECT_TRUE(history.allows(found));
  ++recoveries;
  newer_seen += history.has_newer(found) ? 1 : 0;
  return found;
}

/// Goes on with what recovery shows and cuts the power: all is there, and what is persisted now.
void expect_usable(const std::shared_ptr<SimDisk>& disk, std::uint64_t seed) {
  Lent lent(disk);
  ASSERT_TRUE(lent.status().ok());
  std::memset(lent.bytes().data() + 60, 0x5a, 100);
  ASSERT_TRUE(lent.region().persist(60, 100).ok());
  disk->for_each_crash(seed, kExhaustiveMax, kSamples, [&](const auto& left) {
    Lent again(left);
    ASSERT_TRUE(again.status().ok()) << again.status().ToString();
    ASSERT_EQ(again.content(), lent.content());
  });
}

/// Runs the history of `seed` once to count its operations, then once for each of them with
/// `prepare` called first; `check` sees the disk as it was left.
void at_each_operation(
    std::uint64_t seed, std::uint64_t persists,
    const std::function<void(SimDisk&, std::uint64_t operation)>& prepare,
    const std::function<void(const std::shared_ptr<SimDisk>&, const History&)>& check) {
  std::uint64_t operations = 0;
  {
    const auto disk = std::make_shared<SimDisk>();
    ASSERT_TRUE(History().run(disk, seed, persists).ok());
    operations = disk->operations();
  }
  for (std::uint64_t operation = 0; operation <= operations; ++operation) {
    SCOPED_TRACE("seed=" + std::to_string(seed) + " operation=" + std::to_string(operation));
    const auto disk = std::make_shared<SimDisk>();
    prepare(*disk, operation);
    History history;
    (void)history.run(disk, seed, persists);
    check(disk, history);
    if (testing::Test::HasFailure()) return;
  }
}

void stop(SimDisk& disk, std::uint64_t operation) { disk.stop_before(operation); }

// Goal: a power cut leaves no line older than the last persist of it, whatever others store while
// the region works.
// Method: cut before every write, sync and rename; each unsynced sector survives or not. Stores
// come also between the writes and syncs of a persist and its checkpoint.
// Mutation: restart() before the file's sync in checkpoint() fails at once; so does a persist that
// leaves out its last line, and restart() without its sync.
TEST(PmemFileRegionOverCrash, PowerCutLosesNoPersistedLine) {
  recoveries = 0;
  newer_seen = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    at_each_operation(seed, /*persists=*/9, stop, [&](const auto& disk, const History& history) {
      disk->for_each_crash(seed, kExhaustiveMax, kSamples,
                           [&](const auto& left) { recover(left, history); });
    });
  }
  EXPECT_GE(recoveries, 5'000U);
  EXPECT_GE(newer_seen, 1'000U);
}

// Goal: recovery may itself be cut at any point, again and again, and loses nothing either.
// Method: three cuts in a row, each at a random operation of the recovery of what the last left.
// Mutation: a recovery that restarts the log before the file's sync fails.
TEST(PmemFileRegionOverCrash, RecoveryMayBeCut) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    base::Random random(seed);
    const auto cut_again = [&](const std::shared_ptr<SimDisk>& left, const History& history) {
      std::shared_ptr<SimDisk> disk = left;
      for (int cut = 0; cut < 3; ++cut) {
        disk->stop_before(disk->operations() + random.below(8));
        (void)Lent(disk);
        std::vector<std::shared_ptr<SimDisk>> images;
        disk->for_each_crash(random.next(), /*exhaustive_max=*/1, /*samples=*/2,
                             [&](const auto& image) { images.push_back(image); });
        disk = images[random.below(images.size())];
      }
      recover(disk, history);
    };
    at_each_operation(seed, /*persists=*/7, stop, [&](const auto& disk, const History& history) {
      disk->for_each_crash(seed, /*exhaustive_max=*/64, kSamples,
                           [&](const auto& left) { cut_again(left, history); });
    });
  }
}

// Goal: what a reopened region shows is durable to the byte, also what its process stored and never
// persisted, and also after a failed sync, which leaves the caches clean but not written.
// Method: kill before every operation or fail it (caches stay), reopen, then cut the power: same
// content. Also go on persisting after the reopen before the cut.
// Mutation: replay() without settle() fails, and so does a recovery that does not mark the pages of
// the lines that it applies: stores in them that nobody persisted are in the caches only.
TEST(PmemFileRegionOverCrash, WhatReopenShowsSurvivesAPowerCut) {
  const auto fail = [](SimDisk& disk, std::uint64_t operation) {
    disk.fail_at(operation, SimDisk::Failure::kIo);
  };
  const auto check = [](const std::shared_ptr<SimDisk>& disk, const History& history) {
    disk->for_each_crash(/*seed=*/1, /*exhaustive_max=*/16, /*samples=*/4,
                         [&](const auto& left) { recover(left, history); });
    disk->restart();
    const auto seen = recover(disk, history);
    if (!seen) return;
    disk->for_each_crash(/*seed=*/1, kExhaustiveMax, kSamples,
                         [&](const auto& left) { EXPECT_EQ(recover(left, history), seen); });
    expect_usable(disk, /*seed=*/1);
  };
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    at_each_operation(seed, /*persists=*/9, stop, check);
    at_each_operation(seed, /*persists=*/9, fail, check);
  }
}

// Goal: a recovery that reads what only the caches hold may be cut as any other.
// Method: kill before or fail every operation; recover from the caches up to each of its first
// operations; cut the power.
// Mutation: a recovery that does not mark the pages of the lines that it applies fails.
TEST(PmemFileRegionOverCrash, RecoveryFromCachesMayBeCut) {
  const auto fail = [](SimDisk& disk, std::uint64_t operation) {
    disk.fail_at(operation, SimDisk::Failure::kIo);
  };
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (std::uint64_t steps = 1; steps <= 8; ++steps) {
      const auto cut = [&](const std::shared_ptr<SimDisk>& disk, const History& history) {
        disk->restart();
        disk->stop_before(disk->operations() + steps);
        (void)Lent(disk);
        disk->for_each_crash(seed, /*exhaustive_max=*/16, /*samples=*/4,
                             [&](const auto& left) { recover(left, history); });
      };
      at_each_operation(seed, /*persists=*/6, stop, cut);
      at_each_operation(seed, /*persists=*/6, fail, cut);
    }
  }
}

// Goal: a persist costs one sync, changed or not, none if it covers nothing, three with a
// checkpoint.
// Method: count the disk's syncs.
// Mutation: a comparison with what is in the log makes the second of two equal persists free.
TEST(PmemFileRegionOverCrash, OneSyncPerPersist) {
  const auto disk = std::make_shared<SimDisk>();
  Lent lent(disk);
  ASSERT_TRUE(lent.status().ok());
  const auto syncs_of_persist = [&](std::uint64_t bytes) {
    const std::uint64_t before = disk->syncs();
    EXPECT_TRUE(lent.region().persist(0, bytes).ok());
    return disk->syncs() - before;
  };
  lent.bytes()[0] = std::byte{1};
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(syncs_of_persist(300), 1U);
    EXPECT_EQ(syncs_of_persist(0), 0U);
  }
  EXPECT_EQ(syncs_of_persist(300), 3U);
}

}  // namespace
}  // namespace breccia::pmem
