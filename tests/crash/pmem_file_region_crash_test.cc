#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "crash/pmem_sim_disk.h"
#include "pmem/file_region.h"
#include "pmem/lines.h"

namespace breccia::pmem {
namespace {

using Bytes = std::vector<std::byte>;

const std::string kPath = "region";
const std::string kRedoPath = "region.redo";
// Not a multiple of a page, a sector or a line.
constexpr std::uint64_t kRegionBytes = 2 * kPageBytes + 3 * kLineBytes + 5;
// Room for two or three records, so that a short history has checkpoints in it.
constexpr FileRegionOptions kOptions{3 * kPageBytes};
constexpr std::uint64_t kExhaustiveMax = 512;
constexpr std::uint64_t kSamples = 24;

Result<std::unique_ptr<Region>> open_region(const std::shared_ptr<SimDisk>& disk) {
  return open_file_region_on(disk, kPath, kRegionBytes, kOptions);
}

Bytes content_of(Region& region) { return Bytes(region.data(), region.data() + region.size()); }

/// A program that stores at random places and persists random ranges; it replays from its seed.
/// states[n] is what a power cut must leave once n persists are whole.
struct History {
  std::vector<Bytes> states{Bytes(kRegionBytes)};
  std::uint64_t acknowledged = 0;

  /// Runs until `persists` are done or the disk gives up.
  Status run(const std::shared_ptr<SimDisk>& disk, std::uint64_t seed, std::uint64_t persists);

 private:
  void store_somewhere(base::Random& random, Region& region);
};

void History::store_somewhere(base::Random& random, Region& region) {
  const std::uint64_t stores = 1 + random.below(4);
  for (std::uint64_t i = 0; i < stores; ++i) {
    // A few hundred bytes reach over lines and sectors; most stores are short.
    const std::uint64_t bytes = 1 + random.below(random.one_in(4) ? 700 : 24);
    const std::uint64_t offset = random.below(kRegionBytes - bytes + 1);
    std::memset(region.data() + offset, static_cast<int>(random.below(256)), bytes);
  }
}

Status History::run(const std::shared_ptr<SimDisk>& disk, std::uint64_t seed,
                    std::uint64_t persists) {
  base::Random random(seed);
  BRECCIA_TAKE(auto region, open_region(disk));
  for (std::uint64_t i = 0; i < persists; ++i) {
    store_somewhere(random, *region);
    Bytes next = states.back();
    std::vector<Range> ranges(1 + random.below(3));
    for (Range& range : ranges) {
      range.bytes = random.below(kRegionBytes / ranges.size() + 1);
      range.offset = random.below(kRegionBytes - range.bytes + 1);
      const std::uint64_t end = std::min(lines_end(range.offset, range.bytes), kRegionBytes);
      for (std::uint64_t at = line_start(range.offset); at < end; ++at) {
        next[at] = region->data()[at];
      }
    }
    states.push_back(std::move(next));
    BRECCIA_TRY(region->persist(ranges));
    ++acknowledged;
  }
  return Status::OK();
}

/// Recoveries checked so far: a test that checks few would pass for the wrong reason.
std::uint64_t recoveries = 0;

/// Opens what a crash left and answers its content: the last acknowledged state or the one in
/// flight. Opening works at every moment, also if the region was not whole yet.
std::optional<Bytes> recover(const std::shared_ptr<SimDisk>& disk, const History& history) {
  auto region = open_region(disk);
  EXPECT_TRUE(region.ok()) << region.status().ToString();
  if (!region.ok()) return std::nullopt;
  Bytes found = content_of(*region.value());
  const bool acknowledged = found == history.states[history.acknowledged];
  const bool in_flight = found == history.states.back();
  EXPECT_TRUE(acknowledged || in_flight);
  ++recoveries;
  return found;
}

/// The region works after recovery: what is persisted now is found by the next open.
void expect_usable(const std::shared_ptr<SimDisk>& disk) {
  Bytes expected;
  {
    auto region = open_region(disk);
    ASSERT_TRUE(region.ok());
    std::memset(region.value()->data() + 60, 0x5a, 100);
    ASSERT_TRUE(region.value()->persist(60, 100).ok());
    expected = content_of(*region.value());
  }
  auto region = open_region(disk);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  ASSERT_EQ(content_of(*region.value()), expected);
}

/// Goes on with what recovery shows, without closing it, and cuts the power: what was persisted is
/// there.
void expect_durable_from_now(const std::shared_ptr<SimDisk>& disk, std::uint64_t seed) {
  auto region = open_region(disk);
  ASSERT_TRUE(region.ok());
  std::memset(region.value()->data() + 60, 0x5a, 100);
  ASSERT_TRUE(region.value()->persist(60, 100).ok());
  const Bytes expected = content_of(*region.value());
  disk->for_each_crash(seed, kExhaustiveMax, kSamples, [&](const auto& left) {
    auto again = open_region(left);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    ASSERT_EQ(content_of(*again.value()), expected);
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
    History history;
    ASSERT_TRUE(history.run(disk, seed, persists).ok());
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

// Goal: a power cut leaves the state after some whole persist, at least the last acknowledged one.
// Method: cut before every write, sync and rename; each unsynced sector survives or not.
// Mutation: restart() before the file's sync in checkpoint() fails at once; so does a log that
// applies the shadow's lines to the file before the record's sync.
TEST(PmemFileRegionCrash, PowerCutLeavesAWholePersist) {
  recoveries = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    at_each_operation(seed, /*persists=*/9, stop, [&](const auto& disk, const History& history) {
      disk->for_each_crash(seed, kExhaustiveMax, kSamples, [&](const auto& left) {
        if (!recover(left, history)) return;
        expect_usable(left);
      });
    });
  }
  EXPECT_GE(recoveries, 5'000U);
}

// Goal: a log that grows for a record larger than itself may be cut at any length.
// Method: persist a region whole into a log of one block; cut before the record's sync.
// Mutation: settle() that reads the last record to the end of its block does not open a file that
// ends in the record's zeros.
TEST(PmemFileRegionCrash, GrowingLogMayBeCut) {
  const auto open = [](const std::shared_ptr<SimDisk>& disk) {
    return open_file_region_on(disk, kPath, kRegionBytes, {kPageBytes});
  };
  const auto disk = std::make_shared<SimDisk>();
  const Bytes stored(kRegionBytes, std::byte{7});
  {
    auto region = open(disk);
    ASSERT_TRUE(region.ok());
    disk->stop_before(disk->operations() + 1);
    std::copy(stored.begin(), stored.end(), region.value()->data());
    ASSERT_FALSE(region.value()->persist(0, kRegionBytes).ok());
  }
  disk->for_each_crash(/*seed=*/1, kExhaustiveMax, kSamples, [&](const auto& left) {
    auto region = open(left);
    ASSERT_TRUE(region.ok()) << region.status().ToString();
    const Bytes found = content_of(*region.value());
    ASSERT_TRUE(found == stored || found == Bytes(kRegionBytes));
  });
}

// Goal: recovery may itself be cut at any point, again and again, and ends at the same state.
// Method: three cuts in a row, each at a random operation of the recovery of what the last left.
// Mutation: a recovery that restarts the log before the file's sync fails.
TEST(PmemFileRegionCrash, RecoveryMayBeCut) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    base::Random random(seed);
    const auto cut_again = [&](const std::shared_ptr<SimDisk>& left, const History& history) {
      std::shared_ptr<SimDisk> disk = left;
      for (int cut = 0; cut < 3; ++cut) {
        disk->stop_before(disk->operations() + random.below(8));
        (void)open_region(disk);
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

// Goal: what a reopened region shows is durable, also if its process died before the sync.
// Method: kill before every operation (caches stay), reopen, then cut the power: same content. Also
// go on persisting after the reopen before the cut.
// Mutation: open without sync_folder_of() loses the region; a persist without its sync fails.
TEST(PmemFileRegionCrash, WhatReopenShowsSurvivesAPowerCut) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    at_each_operation(seed, /*persists=*/9, stop, [&](const auto& disk, const History& history) {
      disk->restart();
      const auto seen = recover(disk, history);
      if (!seen) return;
      disk->for_each_crash(seed, kExhaustiveMax, kSamples,
                           [&](const auto& left) { EXPECT_EQ(recover(left, history), seen); });
      expect_durable_from_now(disk, seed);
    });
  }
}

// Goal: a recovery that reads what only the caches hold may be cut as any other.
// Method: kill before or fail every operation; recover from the caches up to each of its first
// operations; cut the power.
// Mutation: replay() without settle(), or one that does not write the last record again, fails:
// checkpoint() then writes pages for a record that the medium does not have.
TEST(PmemFileRegionCrash, RecoveryFromCachesMayBeCut) {
  const auto fail = [](SimDisk& disk, std::uint64_t operation) {
    disk.fail_at(operation, SimDisk::Failure::kIo);
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (std::uint64_t steps = 1; steps <= 8; ++steps) {
      const auto cut = [&](const std::shared_ptr<SimDisk>& disk, const History& history) {
        disk->restart();
        disk->stop_before(disk->operations() + steps);
        (void)open_region(disk);
        disk->for_each_crash(seed, /*exhaustive_max=*/64, /*samples=*/8,
                             [&](const auto& left) { recover(left, history); });
      };
      at_each_operation(seed, /*persists=*/6, stop, cut);
      at_each_operation(seed, /*persists=*/6, fail, cut);
    }
  }
}

// Goal: after any failed call the region refuses, and neither the medium nor a reopen over the
// caches, which a failed sync has left clean but not written, shows anything but a whole persist.
// Method: fail every operation in turn, once with EIO and once with ENOSPC; the disk works again
// after it.
// Mutation: settle() that does not write the header again fails: the one that the cache shows may
// never reach the medium.
TEST(PmemFileRegionCrash, FailedCallIsFinal) {
  for (const auto failure : {SimDisk::Failure::kIo, SimDisk::Failure::kNoSpace}) {
    const auto fail = [&](SimDisk& disk, std::uint64_t operation) {
      disk.fail_at(operation, failure);
    };
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      at_each_operation(seed, /*persists=*/9, fail, [&](const auto& disk, const History& history) {
        disk->for_each_crash(seed, kExhaustiveMax, kSamples,
                             [&](const auto& left) { recover(left, history); });
        disk->restart();
        const auto seen = recover(disk, history);
        if (!seen) return;
        disk->for_each_crash(seed, kExhaustiveMax, kSamples,
                             [&](const auto& left) { EXPECT_EQ(recover(left, history), seen); });
        expect_durable_from_now(disk, seed);
      });
    }
  }
}

// Goal: a region that failed refuses everything, with the failure's code.
// Method: one failing sync, then calls that would succeed.
// Mutation: persist() that does not keep failed_ answers ok.
TEST(PmemFileRegionCrash, RefusesAfterAFailure) {
  for (const auto failure : {SimDisk::Failure::kIo, SimDisk::Failure::kNoSpace}) {
    const auto disk = std::make_shared<SimDisk>();
    auto region = open_region(disk);
    ASSERT_TRUE(region.ok());
    region.value()->data()[0] = std::byte{1};
    disk->fail_at(disk->operations() + 1, failure);
    for (int call = 0; call < 3; ++call) {
      const Status status = region.value()->persist(0, 1);
      EXPECT_TRUE(status.IsIOError());
      EXPECT_EQ(status.IsNoSpace(), failure == SimDisk::Failure::kNoSpace);
    }
    EXPECT_TRUE(region.value()->persist(0, 0).IsIOError());
  }
}

// Goal: a persist costs one sync, none if nothing changed, three with a checkpoint.
// Method: count the disk's syncs.
// Mutation: a sync per line or page, or a record without lines, raises the count.
TEST(PmemFileRegionCrash, OneSyncPerPersist) {
  const auto disk = std::make_shared<SimDisk>();
  auto region = open_region(disk);
  ASSERT_TRUE(region.ok());
  const auto syncs_of_persist = [&](int value) {
    std::memset(region.value()->data(), value, 300);
    const std::uint64_t before = disk->syncs();
    EXPECT_TRUE(region.value()->persist(0, kRegionBytes).ok());
    return disk->syncs() - before;
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(syncs_of_persist(1 + round), 1U);
    EXPECT_EQ(syncs_of_persist(1 + round), 0U);
  }
  EXPECT_EQ(syncs_of_persist(9), 3U);
}

/// A disk whose files wait in sync() until the gate is open, and count the syncs.
class GatedDisk final : public Disk {
 public:
  std::atomic<bool> gate_is_open{true};
  std::atomic<int> syncs{0};

  Result<std::unique_ptr<DiskFile>> open(const std::string& path) override {
    return wrap(below_.open(path));
  }
  Result<std::unique_ptr<DiskFile>> create(const std::string& path, std::uint64_t bytes) override {
    return wrap(below_.create(path, bytes));
  }
  Status rename(const std::string& from, const std::string& to) override {
    return below_.rename(from, to);
  }
  Status sync_folder_of(const std::string& path) override { return below_.sync_folder_of(path); }

 private:
  class File final : public DiskFile {
   public:
    File(GatedDisk* disk, std::unique_ptr<DiskFile> below)
        : disk_(disk), below_(std::move(below)) {}
    Result<std::uint64_t> size() override { return below_->size(); }
    Status read(std::uint64_t offset, std::span<std::byte> into) override {
      return below_->read(offset, into);
    }
    Status write(std::uint64_t offset, std::span<const std::byte> from) override {
      return below_->write(offset, from);
    }
    Status sync() override {
      ++disk_->syncs;
      while (!disk_->gate_is_open) std::this_thread::yield();
      return below_->sync();
    }

   private:
    GatedDisk* disk_;
    std::unique_ptr<DiskFile> below_;
  };
  Result<std::unique_ptr<DiskFile>> wrap(Result<std::unique_ptr<DiskFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<DiskFile>(std::make_unique<File>(this, file.take()));
  }

  SimDisk below_;
};

// Goal: callers that come while a record is written share the next one and its sync.
// Method: a first persist waits in its sync until seven others have come.
// Mutation: callers that wait for each other one by one make a sync each.
TEST(PmemFileRegionCrash, CallersShareASync) {
  constexpr std::uint64_t kOthers = 7;
  const auto disk = std::make_shared<GatedDisk>();
  auto region = open_file_region_on(disk, kPath, kRegionBytes, {64 * kPageBytes});
  ASSERT_TRUE(region.ok());
  std::atomic<std::uint64_t> came{0};
  const auto store = [&](std::uint64_t caller) {
    region.value()->data()[caller * kLineBytes] = std::byte{1};
    ++came;
    EXPECT_TRUE(region.value()->persist(caller * kLineBytes, 1).ok());
  };
  disk->syncs = 0;
  disk->gate_is_open = false;
  std::vector<std::thread> callers;
  callers.emplace_back(store, 0);
  while (disk->syncs == 0) std::this_thread::yield();
  for (std::uint64_t caller = 1; caller <= kOthers; ++caller) callers.emplace_back(store, caller);
  while (came <= kOthers) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // all wait by now, or nearly all
  disk->gate_is_open = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_GE(disk->syncs, 2);
  EXPECT_LT(disk->syncs, kOthers);  // one that is late makes one of its own
}

/// A region with three records in its log, closed.
std::shared_ptr<SimDisk> disk_with_three_records() {
  const auto disk = std::make_shared<SimDisk>();
  auto region = open_region(disk);
  EXPECT_TRUE(region.ok());
  for (int i = 0; i < 3; ++i) {
    std::memset(region.value()->data(), i + 1, 200);
    EXPECT_TRUE(region.value()->persist(0, 200).ok());
  }
  return disk;
}

// Goal: damage to an acknowledged record with whole ones behind it is Corruption, not a short log.
// Method: flip one bit at every byte of the header and of the first two records; the last record
// cannot be told from a torn one and is dropped.
// Mutation: replay() without check_nothing_behind() opens with lost persists.
TEST(PmemFileRegionCrash, RotInTheLogIsCorruption) {
  constexpr std::uint64_t kRecordBytes = 64 + 4 * 72;
  for (std::uint64_t at = 0; at < kRecordBytes; ++at) {
    SCOPED_TRACE("byte " + std::to_string(at));
    for (std::uint64_t block = 0; block < 3; ++block) {
      if (block == 0 && at >= 64) continue;
      const auto disk = disk_with_three_records();
      disk->rot(kRedoPath, block * kPageBytes + at);
      ASSERT_TRUE(open_region(disk).status().IsCorruption());
    }
    const auto disk = disk_with_three_records();
    disk->rot(kRedoPath, 3 * kPageBytes + at);
    auto region = open_region(disk);
    ASSERT_TRUE(region.ok());
    ASSERT_EQ(region.value()->data()[0], std::byte{2});
  }
}

// Goal: a region without its log, or with the log of another size, is Corruption.
// Method: remove the log; give another region's.
// Mutation: creating a missing log at open loses what the lost one held.
TEST(PmemFileRegionCrash, LogMustBelongToTheRegion) {
  const auto disk = disk_with_three_records();
  ASSERT_TRUE(open_file_region_on(disk, "other", kRegionBytes + 1, kOptions).ok());
  ASSERT_TRUE(disk->rename("other.redo", kRedoPath).ok());
  EXPECT_TRUE(open_region(disk).status().IsCorruption());
  disk->remove(kRedoPath);
  EXPECT_TRUE(open_region(disk).status().IsCorruption());
}

}  // namespace
}  // namespace breccia::pmem
