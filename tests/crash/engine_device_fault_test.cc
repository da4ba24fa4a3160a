#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "scripted.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::crash {

namespace {

constexpr std::uint32_t kDeviceMin = 16;

/// A script for a device: runs of several sizes, a merge of four, flushes, batches of two families
/// whose frames have no descriptors.
std::vector<Step> device_script() {
  using Kind = Step::Kind;
  return {
      {Kind::kPut, "a"},          {Kind::kBatch, "many", 40}, {Kind::kBatch, "more", 30, 200},
      {Kind::kDelete, "many3"},   {Kind::kBatch, "many", 20}, {Kind::kBatch, "few", 3},
      {Kind::kBatch, "more", 25}, {Kind::kFlush, ""},         {Kind::kBatch, "many", 30},
      {Kind::kPut, "b"},          {Kind::kMixed, "mix", 24},  {Kind::kMixed, "mix", 2},
      {Kind::kFlush, ""},         {Kind::kMixed, "mix", 16},  {Kind::kBatch, "last", 20},
  };
}

Options device_options(const testing::FakeGpu& gpu) {
  Options options = quiet_options();
  options.device_requests_min = kDeviceMin;
  gpu.use(&options);
  return options;
}

/// A store on a fake device with a log to recover, for one fault.
class Trial {
 public:
  explicit Trial(const testing::Folder& prepared) : folder_(testing::Place::kMemory) {
    testing::copy_sparse(prepared / "store", folder_ / "store");
  }

  /// Runs the script with the k-th device operation failing, 0: none. Returns operations made.
  std::uint64_t run(std::uint64_t k, exec::Fault fault) {
    testing::FakeGpu gpu;
    exec::FakeFaults& faults = gpu.faults;
    if (k != 0) faults.fail_after(k, fault);
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(device_options(gpu), folder_ / "store", &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    if (!opened.ok()) return 0;
    Script script(device_script());
    Status failure;
    EXPECT_EQ(script.run(store.get(), /*stops=*/false, &failure), "");
    expect_prepared(store.get());
    std::string retired;
    EXPECT_TRUE(store->GetProperty("breccia.backend-retired", &retired));
    const std::uint64_t operations = faults.operations();
    const bool struck = k != 0 && operations >= k;
    EXPECT_FALSE(fault == exec::Fault::kOutOfMemory && retired != "OK") << retired;
    if (struck && retired != "OK") {
      EXPECT_EQ(script.run(store.get(), /*stops=*/false, &failure), "");
      EXPECT_EQ(faults.operations(), operations) << "the device was used after its retirement";
    } else if (struck) {
      // Any fault of an allocation is a want of memory. A lost device shows in the next operation;
      // what it lost may have been enqueued last, before nothing or before an allocation.
      std::string misses;
      EXPECT_TRUE(store->GetProperty("breccia.backend.memory-misses", &misses));
      EXPECT_TRUE(fault != exec::Fault::kDeviceLost || operations == k || misses != "0");
      went_on_ += misses == "0" ? 1 : 0;
    } else {
      EXPECT_EQ(retired, "OK");
    }
    store.reset();
    expect_kept(&script);
    return operations;
  }

  /// Runs the script with the k-th sort giving a wrong answer, 0: none. *sorts: how many there
  /// were.
  void run_with_false_sort(std::uint64_t k, std::uint64_t* sorts) {
    testing::FakeGpu gpu;
    if (k != 0) gpu.faults.falsify_sort(k);
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(device_options(gpu), folder_ / "store", &store).ok());
    Script script(device_script());
    Status failure;
    EXPECT_EQ(script.run(store.get(), /*stops=*/false, &failure), "");
    expect_prepared(store.get());
    *sorts = gpu.faults.sorts();
    std::string retired;
    EXPECT_TRUE(store->GetProperty("breccia.backend-retired", &retired));
    EXPECT_EQ(retired != "OK", k != 0 && *sorts >= k) << retired;
    store.reset();
    expect_kept(&script);
  }

  /// Faults that nobody noticed.
  [[nodiscard]] static std::uint64_t went_on() { return went_on_; }

  static void prepare(const testing::Folder& folder) {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(quiet_options(), folder / "store", &store).ok());
    Batch batch;
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(batch.Put(fmt::format("old{}", i), "before").ok());
    ASSERT_TRUE(store->Submit(WriteOptions(), &batch).ok());
    ASSERT_TRUE(store->Put(WriteOptions(), "old", "single").ok());
  }

 private:
  void expect_kept(Script* script) {
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(quiet_options(), folder_ / "store", &store);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    EXPECT_EQ(script->check_acked(store.get()), "");
    expect_prepared(store.get());
  }

  static void expect_prepared(Store* store) {
    std::vector<std::string> keys{"old"};
    for (int i = 0; i < 50; ++i) keys.push_back(fmt::format("old{}", i));
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = store->MultiGet(slices, &values);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(statuses[i].ok()) << keys[i] << ": " << statuses[i].ToString();
      EXPECT_EQ(values[i], i == 0 ? "single" : "before");
    }
  }

  inline static std::uint64_t went_on_ = 0;
  const testing::Folder folder_;
};

}  // namespace

// Goal: whatever operation of the device fails, however it fails, every batch completes with right
//   results and nothing acknowledged is lost. A device that has no memory left is used again; after
//   any other failure it is left alone.
// Method: open with a log to recover, a script of batches, merges and flushes on the fake device;
//   once for every operation that it makes and every kind of fault.
// Mutation: merging or searching device runs with the host backend after a retirement crashes here.
TEST(EngineDeviceFault, EveryOperation) {
  const testing::Folder prepared(testing::Place::kMemory);
  Trial::prepare(prepared);
  const std::uint64_t operations = Trial(prepared).run(0, exec::Fault::kOutOfMemory);
  const std::uint64_t stride = 100 / std::min<std::uint64_t>(100, testing::share_of(100));
  const std::uint64_t first = 1 + testing::seeds_to_run(1).front() % stride;
  std::uint64_t points = 0;
  for (const exec::Fault fault :
       {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure, exec::Fault::kDeviceLost}) {
    for (std::uint64_t k = first; k <= operations && !HasFailure(); k += stride) {
      SCOPED_TRACE(fmt::format("operation {}, fault {}", k, static_cast<int>(fault)));
      Trial(prepared).run(k, fault);
      ++points;
    }
  }
  // Of all faults 4 % strike what nobody waits for; of few it may be more.
  if (points >= 200) {
    EXPECT_LT(Trial::went_on(), points / 10);
  }
  std::printf("%lu device operations, %lu faults, %lu without effect\n", operations, points,
              Trial::went_on());
}

// Goal: a device whose sorts or merges go wrong without a word is left, and nothing of what it
//       said is written, or read.
// Method: as above, with sort 1, 2, 3, ... losing an entry and saying OK; then opened on the host.
// Mutation: believing a device's order ends in lost entries, or a log that does not open again.
TEST(EngineDeviceFault, EverySort) {
  const testing::Folder prepared(testing::Place::kMemory);
  Trial::prepare(prepared);
  std::uint64_t sorts = 0;
  Trial(prepared).run_with_false_sort(0, &sorts);
  ASSERT_GT(sorts, 10u);
  for (std::uint64_t k = 1; k <= sorts && !HasFailure(); ++k) {
    SCOPED_TRACE(fmt::format("sort {}", k));
    std::uint64_t made = 0;
    Trial(prepared).run_with_false_sort(k, &made);
  }
}

}  // namespace breccia::crash
