#include "compaction/merge_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <string>

#include "compaction/plan.h"
#include "compaction/slice_reader.h"
#include "exec/fake/fake_device.h"
#include "exec/host/host_device.h"
#include "exec/sim/sim_device.h"
#include "support/compaction_loads.h"

namespace breccia::compaction::conformance {
namespace {

constexpr std::uint64_t kNever = 1ULL << 40;

/// A small job, and how many entries come of it.
class SmallJob {
 public:
  explicit SmallJob(const Config& config) : folder_(Place::kMemory) {
    std::filesystem::create_directories(folder_ / "out");
    load(folder_ / "db", config, /*seed=*/1, &loaded_);
    job_ = job_of(loaded_, config, folder_ / "out");
    inputs_ = files();
    EXPECT_TRUE(run(*backend_of_kind(exec::DeviceKind::kHost)).ok());
    entries_ = written_;
    EXPECT_GT(entries_, 50U);
  }

  /// Does the job; if that ends well, with what is to come of it, else without a file.
  Status run(Backend& backend, Merged* made = nullptr) {
    Merged merged;
    Status status = merge(job_, backend, &merged);
    if (made != nullptr) *made = merged;
    written_ = merged.counts.entries_written;
    if (status.ok()) {
      EXPECT_TRUE(entries_ == 0 || written_ == entries_);
      for (const MergedFile& file : merged.files) {
        std::filesystem::remove(job_.folder + "/" + file.name);
      }
    }
    EXPECT_EQ(files(), inputs_);
    return status;
  }
  MergeJob& job() { return job_; }

 private:
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_ / "out"), {}));
  }

  Folder folder_;
  Loaded loaded_;
  MergeJob job_;
  std::size_t inputs_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t written_ = 0;
};

Config small_config() {
  Config config{"small"};
  config.keys = 60;
  return config;
}

std::shared_ptr<Backend> fake_backend(exec::FakeFaults* faults) {
  return backend_on(exec::fake::make_fake_device(faults));
}

/// Runs the job with operation 1, 1 + step, 1 + 2 * step, ... failing.
void fail_each(SmallJob* job, exec::Fault fault, std::uint64_t operations, std::uint64_t step = 1) {
  exec::FakeFaults faults;
  const auto backend = fake_backend(&faults);
  std::uint64_t failures = 0;
  for (std::uint64_t k = 1; k <= operations; k += step) {
    SCOPED_TRACE(fmt::format("operation {}", k));
    faults.fail_after(k, fault);
    // An allocation of nothing succeeds even without memory.
    const Status status = job->run(*backend);
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit() || status.IsIOError());
    failures += status.ok() ? 0 : 1;
    EXPECT_EQ(backend->tenant().used(), 0U);
    faults.fail_after(kNever, fault);
    EXPECT_TRUE(job->run(*backend).ok());
  }
  EXPECT_GT(failures, operations / step * 3 / 4);
}

// Goal: whichever operation of a device fails, the merge says so, leaves no file, keeps no memory,
//       and the device goes on.
// Method: one job again and again, merged and sorted, with operation 1, 2, 3, ... failing, for each
//         fault.
// Mutation: an error that is dropped on the way out ends in an OK without entries.
TEST(MergeOnFake, AnyOperationMayFail) {
  for (const Ordering ordering : {Ordering::kMerge, Ordering::kSort}) {
    SmallJob job(small_config());
    job.job().ordering = ordering;
    exec::FakeFaults counted;
    ASSERT_TRUE(job.run(*fake_backend(&counted)).ok());
    ASSERT_GT(counted.operations(), 50U);
    for (const exec::Fault fault : {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure}) {
      fail_each(&job, fault, counted.operations());
    }
  }
}

/// A job of eight lanes, each of several slices and files.
Config lanes_config() {
  Config config{"lanes"};
  config.keys = 6000;
  return config;
}
constexpr std::uint64_t kLaneFileBytes = 20 << 10;
constexpr std::uint64_t kLaneSliceBytes = 6 << 10;

// Goal: files that are written side by side are one ascending row, and about as large as they are
//       to be; each has a number of its own.
// Method: a job of some 30 files in eight lanes, and what is said of them. What they hold is what
//         the conformance tests look at.
// Mutation: lanes in another order than that of their keys; a number that two files have; files
//           that end with each slice.
TEST(MergeLanes, FilesAreOneRow) {
  SmallJob job(lanes_config());
  job.job().file_bytes = kLaneFileBytes;
  job.job().slice_bytes = kLaneSliceBytes;
  job.job().first_file_number = 100;
  Merged merged;
  ASSERT_TRUE(job.run(*backend_of_kind(exec::DeviceKind::kHost), &merged).ok());
  ASSERT_GT(merged.files.size(), 16U);
  std::set<std::uint64_t> numbers;
  std::size_t small = 0;
  std::string last;
  for (const MergedFile& file : merged.files) {
    EXPECT_LT(last, file.smallest);
    EXPECT_LE(file.smallest, file.largest);
    last = file.largest;
    numbers.insert(file.number);
    EXPECT_EQ(file.name, std::to_string(file.number) + ".sst");
    EXPECT_LE(file.bytes, 2 * kLaneFileBytes);
    if (file.bytes < kLaneFileBytes / 2) ++small;
  }
  EXPECT_LE(small, 8U);
  EXPECT_EQ(numbers.size(), merged.files.size());
  EXPECT_EQ(*numbers.begin(), 100U);
  EXPECT_EQ(*numbers.rbegin(), 100 + merged.files.size() - 1);
}

// Goal: as above, of a job whose slices wait for each other: an error in one ends all.
// Method: the job of eight lanes, with operation 1, 398, 795, ... failing.
// Mutation: a slice with an error that does not end its turn keeps the next for ever.
TEST(MergeLanes, AnyOperationMayFail) {
  SmallJob job(lanes_config());
  job.job().file_bytes = kLaneFileBytes;
  job.job().slice_bytes = kLaneSliceBytes;
  exec::FakeFaults counted;
  ASSERT_TRUE(job.run(*fake_backend(&counted)).ok());
  constexpr std::uint64_t kStep = 397;
  ASSERT_GT(counted.operations(), 5 * kStep);
  for (const exec::Fault fault : {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure}) {
    fail_each(&job, fault, counted.operations(), kStep);
  }
}

// Goal: a job has as many lanes as make two files each, if half of what may be overwritten is.
// Method: four files of the same size; slices, their bytes and those of files.
// Mutation: a lane without a slice; several for one file.
TEST(MergeLanes, AreAsManyAsFilesAllow) {
  SmallJob job(lanes_config());
  Inputs inputs;
  ASSERT_TRUE(Inputs::open(job.job(), &inputs).ok());
  struct Row {
    std::size_t slices;
    std::uint64_t slice_bytes;
    std::uint64_t file_bytes;
    std::size_t lanes;
  };
  constexpr std::uint64_t kOneFile = std::numeric_limits<std::uint64_t>::max();
  for (const Row& row :
       {Row{1, 1000, 1, 1}, Row{3, 1000, 1, 3}, Row{100, 1000, 1, 8}, Row{100, 1000, kOneFile, 1},
        Row{10, 1000, 5000, 1}, Row{100, 1000, 10'000, 3}}) {
    job.job().file_bytes = row.file_bytes;
    EXPECT_EQ(lanes_of(inputs, job.job(), row.slices, row.slice_bytes), row.lanes);
  }
  job.job().has_stock_cuts = true;
  EXPECT_EQ(lanes_of(inputs, job.job(), 100, 1000), 1U);
}

// Goal: a job with bounds is cut within them, so its lanes all have something to do.
// Mutation: slices of all keys, of which most lie outside.
TEST(MergeLanes, AreWithinBounds) {
  SmallJob job(lanes_config());
  job.job().file_bytes = kLaneFileBytes;
  Inputs inputs;
  ASSERT_TRUE(Inputs::open(job.job(), &inputs).ok());
  const std::vector<std::string> all = slice_ends(inputs, job.job(), kLaneSliceBytes);
  ASSERT_GT(all.size(), 40U);
  job.job().begin = all[all.size() / 2];
  job.job().end = all[all.size() / 2 + 8];
  const std::vector<std::string> ends = slice_ends(inputs, job.job(), kLaneSliceBytes);
  EXPECT_GE(ends.size(), 6U);
  EXPECT_LE(ends.size(), 8U);
  EXPECT_GT(ends.front(), *job.job().begin);
  EXPECT_LE(ends.back(), *job.job().end);
}

/// Throws in one call of merge().
class Throwing final : public Backend {
 public:
  enum class What { kNoMemory, kError, kNoException };
  Throwing(std::shared_ptr<Backend> real, exec::TenantPtr tenant, What what, std::uint64_t call)
      : Backend(std::move(tenant)), real_(std::move(real)), what_(what), left_(call) {}

  Status merge(const Slice& slice, const MergeRules& rules, const sst::TableShape& shape,
               const MergeHow& how, MergedSlice* merged) override {
    if (--left_ == 0) {
      if (what_ == What::kNoMemory) throw std::bad_alloc();
      if (what_ == What::kError) throw std::runtime_error("no thread");
      throw 1;  // NOLINT
    }
    return real_->merge(slice, rules, shape, how, merged);
  }
  Status build_filter(std::span<const HashRange> ranges, const sst::FilterShape& shape,
                      char* lines) override {
    return real_->build_filter(ranges, shape, lines);
  }

 private:
  const std::shared_ptr<Backend> real_;
  const What what_;
  std::atomic<std::uint64_t> left_;
};

// Goal: what a thread of a job's throws is the job's error; RocksDB hears of no failure, and the
//       process goes on.
// Method: the job of eight lanes, with a slice that throws: the first, one in the middle, a late
//         one; no memory, an exception, what is none.
// Mutation: catching std::bad_alloc alone ends the process.
TEST(MergeLanes, WhatIsThrownIsAnError) {
  SmallJob job(lanes_config());
  job.job().file_bytes = kLaneFileBytes;
  job.job().slice_bytes = kLaneSliceBytes;
  const exec::DevicePtr device = exec::host::make_host_device();
  for (const auto what :
       {Throwing::What::kNoMemory, Throwing::What::kError, Throwing::What::kNoException}) {
    for (const std::uint64_t call : {1U, 20U, 40U}) {
      const exec::TenantPtr tenant = device->admit({.name = "thrown"}).take();
      Throwing backend(backend_of_kind(exec::DeviceKind::kHost), tenant, what, call);
      const Status status = job.run(backend);
      EXPECT_EQ(status.IsMemoryLimit(), what == Throwing::What::kNoMemory);
      EXPECT_FALSE(status.ok());
    }
  }
}

// Goal: a slice of which nothing is left is none the less a slice, however tables are written.
// Method: all keys deleted, and bounds between two keys, with compression, other checksums and none
//         of it; on the host and the simulator.
// Mutation: taking bytes that are missing for bytes that are elsewhere.
TEST(MergeSlices, NothingMayBeLeft) {
  for (const char* const name : {"defaults", "crc32c", "snappy", "lz4", "zstd"}) {
    SCOPED_TRACE(name);
    const Config config =
        *std::find_if(std::begin(kConfigs), std::end(kConfigs),
                      [&](const Config& one) { return one.name == std::string(name); });
    for (const bool is_bounded : {false, true}) {
      const Folder folder(Place::kMemory);
      std::filesystem::create_directories(folder / "out");
      rocksdb::DB* opened = nullptr;
      ASSERT_TRUE(rocksdb::DB::Open(options_of(config), folder / "db", &opened).ok());
      Loaded loaded;
      loaded.db.reset(opened);
      for (int i = 0; i < 300; ++i) {
        ASSERT_TRUE(opened->Put({}, fmt::format("key{:04}", 2 * i), "value").ok());
      }
      ASSERT_TRUE(opened->Flush({}).ok());
      for (int i = 0; i < 300 && !is_bounded; ++i) {
        ASSERT_TRUE(opened->Delete({}, fmt::format("key{:04}", 2 * i)).ok());
      }
      ASSERT_TRUE(opened->Flush({}).ok());
      MergeJob job = job_of(loaded, config, folder / "out");
      if (is_bounded) {
        job.begin = "key0101";
        job.end = "key0102";
      }
      for (const auto& device :
           {exec::host::make_host_device(), exec::sim::make_simulator_device(/*seed=*/1)}) {
        Merged merged;
        const Status status = merge(job, *backend_on(device), &merged);
        EXPECT_TRUE(status.ok()) << status.ToString();
        EXPECT_TRUE(merged.files.empty());
      }
    }
  }
}

// Goal: a device that is lost in the middle of a job ends it, and all that come, with an error.
// Method: as above, with a loss.
// Mutation: an operation behind the loss that says OK ends in wrong files.
TEST(MergeOnFake, MayBeLost) {
  SmallJob job(small_config());
  exec::FakeFaults counted;
  ASSERT_TRUE(job.run(*fake_backend(&counted)).ok());
  for (std::uint64_t k = 1; k <= counted.operations(); ++k) {
    SCOPED_TRACE(fmt::format("operation {}", k));
    exec::FakeFaults faults;
    const auto backend = fake_backend(&faults);
    faults.fail_after(k, exec::Fault::kDeviceLost);
    // What is lost in the last wait may have been done.
    const Status status = job.run(*backend);
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit() || status.IsIOError()) << status.ToString();
    EXPECT_TRUE(job.run(*backend).IsIOError());
  }
}

// Goal: a merge on the device that goes wrong without a word is noticed before anybody believes it.
// Method: one job again and again, with merge or sort 1, 2, 3, ... losing an entry and
//         saying OK.
// Mutation: leaving CheckMerged out ends in an OK, or in a read beyond an array.
TEST(MergeOnFake, AnyMergeMayBeFalse) {
  for (const Ordering ordering : {Ordering::kMerge, Ordering::kSort}) {
    SmallJob job(small_config());
    job.job().ordering = ordering;
    exec::FakeFaults counted;
    ASSERT_TRUE(job.run(*fake_backend(&counted)).ok());
    ASSERT_GE(counted.sorts(), ordering == Ordering::kSort ? 1U : 3U);
    for (std::uint64_t k = 1; k <= counted.sorts(); ++k) {
      SCOPED_TRACE(fmt::format("merge {}", k));
      exec::FakeFaults faults;
      const auto backend = fake_backend(&faults);
      faults.falsify_sort(k);
      EXPECT_TRUE(job.run(*backend).IsCorruption());
    }
  }
}

// Goal: a run that is out of order reaches no merge, which on a device would read anywhere.
// Method: two blocks of one input change places; the device counts its merges.
// Mutation: leaving CheckRuns out merges first and finds it out later.
TEST(MergeOnFake, OnlySortedRunsAreMerged) {
  Config config = small_config();
  config.keys = 600;
  SmallJob job(config);
  Inputs inputs;
  ASSERT_TRUE(Inputs::open(job.job(), &inputs).ok());
  exec::FakeFaults faults;
  const auto backend = fake_backend(&faults);
  SliceReader reader(inputs, backend->device().host_memory());
  for (const bool is_sorted : {true, false}) {
    Slice slice;
    ASSERT_TRUE(reader.read(std::nullopt, std::nullopt, &slice).ok());
    ASSERT_GT(slice.run_blocks.front(), 4U);
    if (!is_sorted) std::swap(slice.blocks[1], slice.blocks[3]);
    const std::uint64_t before = faults.sorts();
    MergedSlice merged(backend->device().host_memory());
    const Status status = backend->merge(slice, job.job().rules, job.job().shape, {}, &merged);
    EXPECT_TRUE(is_sorted ? status.ok() : status.IsCorruption()) << status.ToString();
    EXPECT_EQ(faults.sorts() > before, is_sorted);
  }
}

}  // namespace
}  // namespace breccia::compaction::conformance
