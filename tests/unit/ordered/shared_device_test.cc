#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/small_options.h"

/// Several stores of a process and its devices.

namespace breccia::ordered {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class SharedDevice : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open(const testing::FakeGpu& gpu, const std::string& name,
                              std::uint64_t device_bytes_max) {
    Options options = testing::small_options();
    options.create_if_missing = true;
    options.device_requests_min = 16;
    options.device_bytes_max = device_bytes_max;
    options.clean_bytes = clean_bytes_;
    gpu.use(&options);
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(options, folder_ / name, &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return store;
  }
  static std::string key_of(int round, int i) {
    return "key" + std::to_string(round) + "." + std::to_string(i);
  }
  static void write(Store* store, int round, int count) {
    Batch batch = store->NewBatch();
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(batch.Put(key_of(round, i), std::to_string(i)).ok());
    }
    ASSERT_TRUE(store->Submit({}, &batch).ok());
  }
  static void expect_all(Store* store, int rounds, int count) {
    for (int round = 0; round < rounds; ++round) {
      Batch batch = store->NewBatch();
      for (int i = 0; i < count; ++i) ASSERT_TRUE(batch.Get(key_of(round, i)).ok());
      ASSERT_TRUE(store->Submit({}, &batch).ok());
      for (int i = 0; i < count; ++i) {
        ASSERT_EQ(batch.value(static_cast<std::size_t>(i)).ToString(), std::to_string(i));
      }
    }
  }
  static std::uint64_t figure(Store* store, const std::string& name) {
    std::string value;
    EXPECT_TRUE(store->GetProperty(name, &value)) << name;
    return std::stoull(value);
  }

  testing::Folder folder_{testing::Place::kMemory};
  std::uint64_t clean_bytes_ = 0;
};

}  // namespace

// Goal: a store uses the device whose number it was given, and no other.
// Method: two fake devices; a store on the second.
// Mutation: a number that is dropped on the way uses the first, or none.
TEST_F(SharedDevice, SecondOfTwo) {
  const testing::FakeGpu first;
  const testing::FakeGpu second;
  const auto store = open(second, "store", 0);
  write(store.get(), 0, 1000);
  expect_all(store.get(), 1, 1000);
  EXPECT_EQ(first.faults.operations(), 0U);
  EXPECT_GT(second.faults.operations(), 0U);
}

// Goal: two stores on one device stay within their budgets and the device within its memory, and
//   both answer rightly; the one that wants memory makes the other flush.
// Method: a small device whose budgets add up to more than it has; the first store writes less than
//   what lets it flush by itself, then the second one writes and merges.
// Mutation: without anybody asked, the first never flushes.
TEST_F(SharedDevice, TwoStoresWithinBudgets) {
  constexpr std::uint64_t kBudget = 6 * kMiB;
  constexpr int kCount = 4000;
  // What the second store writes is more than a quarter of its budget, so it flushes, and the merge
  // for that finds no room beside the first one.
  constexpr int kRounds = 14;
  const testing::FakeGpu gpu(4 * kMiB);
  const auto one = open(gpu, "one", kBudget);
  const auto two = open(gpu, "two", kBudget);
  const auto device = exec::open_device(exec::DeviceKind::kCuda, gpu.number()).value();
  for (int round = 0; round < kRounds / 2; ++round) {
    write(one.get(), round, kCount);
    EXPECT_LE(figure(one.get(), "breccia.device-bytes"), kBudget);
  }
  // Beside merges that lag behind it may have flushed by itself.
  const std::uint64_t flushes = figure(one.get(), "breccia.flush.count");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int rounds = 0;
  while (rounds < kRounds || figure(one.get(), "breccia.flush.count") == flushes) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    write(two.get(), rounds++, kCount);
    EXPECT_LE(figure(two.get(), "breccia.device-bytes"), kBudget);
    EXPECT_LE(device->memory_held(), device->memory_limit());
  }
  expect_all(one.get(), kRounds / 2, kCount);
  expect_all(two.get(), rounds, kCount);
  std::string retired;
  for (Store* const store : {one.get(), two.get()}) {
    EXPECT_TRUE(store->GetProperty("breccia.backend-retired", &retired));
    EXPECT_EQ(retired, "OK");
  }
}

// Goal: what a store keeps on a device though it was flushed goes when another one wants the
//   memory, also while the first one has nothing to do.
// Method: a flush of one store, then nothing; the other one writes as above.
// Mutation: a flusher that looks for dirty data only never gives.
TEST_F(SharedDevice, IdleStoreGivesWhatIsClean) {
  constexpr std::uint64_t kBudget = 6 * kMiB;
  constexpr int kCount = 4000;
  const testing::FakeGpu gpu(4 * kMiB);
  clean_bytes_ = 1 << 30;
  const auto idle = open(gpu, "idle", kBudget);
  clean_bytes_ = 0;
  const auto busy = open(gpu, "busy", kBudget);
  for (int round = 0; round < 3; ++round) write(idle.get(), round, kCount);
  ASSERT_TRUE(idle->Flush().ok());
  ASSERT_GT(figure(idle.get(), "breccia.clean.bytes"), 0U);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int round = 0; figure(idle.get(), "breccia.clean.bytes") > 0; ++round) {
    write(busy.get(), round, kCount);
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  EXPECT_EQ(figure(idle.get(), "breccia.flush.count"), 1U);
  expect_all(idle.get(), 3, kCount);
}

// Goal: a device that is lost under one store is left by the other, too, which goes on.
// Method: two stores with data on a device; it is lost in a call of the first, and the second one
//   reads.
// Mutation: without tenants that are told, the second still says that it uses the device.
TEST_F(SharedDevice, LossReachesBoth) {
  testing::FakeGpu gpu;
  const auto one = open(gpu, "one", 0);
  const auto two = open(gpu, "two", 0);
  write(one.get(), 0, 500);
  write(two.get(), 0, 500);
  gpu.faults.fail_after(1, exec::Fault::kDeviceLost);
  expect_all(one.get(), 1, 500);
  std::string retired;
  EXPECT_TRUE(two->GetProperty("breccia.backend-retired", &retired));
  EXPECT_NE(retired, "OK");
  expect_all(two.get(), 1, 500);
  write(two.get(), 1, 500);
  expect_all(two.get(), 2, 500);
}

}  // namespace breccia::ordered
