#include "exec/fake/fake_device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/exec_model.h"

namespace breccia::exec {
namespace {

/// Two builds, a merge and a search with known answers: one piece of work that may fail anywhere.
class Work {
 public:
  explicit Work(Backend& backend) : backend_(backend) {}

  Status run() {
    const model::Columns first(plain_host_memory(), {"bb", "a", "cccccccccc", "a"}, true);
    const model::Columns second(plain_host_memory(), {"dd", "bb", "", "cccccccccd"}, true);
    const std::vector<std::uint64_t> offsets{1, 9, 17, 25};
    std::vector<std::uint32_t> descriptors(4);
    BRECCIA_TAKE(const RunPtr older,
                 backend_.build_run(first.ref(), offsets.data(), 8, false, descriptors.data()));
    BRECCIA_TAKE(const RunPtr newer,
                 backend_.build_run(second.ref(), offsets.data(), 80, false, nullptr));
    const RunPtr both[] = {newer, older};
    BRECCIA_TAKE(const RunPtr merged, backend_.merge_runs(both, true));
    std::vector<std::uint64_t> payloads(merged->count());
    BRECCIA_TRY(backend_.read_payloads(*merged, payloads.data()));
    EXPECT_EQ(payloads, (std::vector<std::uint64_t>{97, 33, 89, 25, 105, 81}));
    std::vector<std::uint64_t> found(4);
    BRECCIA_TRY(backend_.search(both, QueriesRef{first.ref(), nullptr, 30}, found.data()));
    EXPECT_EQ(found, (std::vector<std::uint64_t>{9, 17, 25, 17}));
    return Status::OK();
  }

 private:
  Backend& backend_;
};

constexpr std::uint64_t kNever = 1ULL << 40;

// Goal: whichever operation fails, the call says so, keeps no memory, and leaves the device usable.
// Method: the same work again and again, with operation 1, 2, 3, ... failing, for each fault.
// Mutation: an error that is dropped on the way out ends in wrong payloads or an OK.
TEST(FakeDevice, AnyOperationMayFail) {
  FakeFaults counted;
  ASSERT_TRUE(Work(*make_fake_device(&counted)).run().ok());
  const std::uint64_t operations = counted.operations();
  ASSERT_GT(operations, 50U);
  for (const Fault fault : {Fault::kOutOfMemory, Fault::kLaunchFailure}) {
    FakeFaults faults;
    const auto device = make_fake_device(&faults);
    std::uint64_t failures = 0;
    for (std::uint64_t k = 1; k <= operations; ++k) {
      SCOPED_TRACE("operation " + std::to_string(k));
      faults.fail_after(k, fault);
      // An allocation of nothing succeeds even without memory, so a few failures go unnoticed.
      const Status status = Work(*device).run();
      EXPECT_TRUE(status.ok() || status.IsMemoryLimit() || status.IsIOError());
      failures += status.ok() ? 0 : 1;
      EXPECT_EQ(device->memory_used(), 0U);
      faults.fail_after(kNever, fault);
      EXPECT_TRUE(Work(*device).run().ok());
    }
    EXPECT_GT(failures, operations * 3 / 4);
  }
}

// Goal: a lost device fails every call from then on, and never gives an answer.
// Method: each operation in turn loses a fresh device.
// Mutation: a call that does not wait for what it enqueued answers from a lost device.
TEST(FakeDevice, LostDevicesStayLost) {
  FakeFaults counted;
  ASSERT_TRUE(Work(*make_fake_device(&counted)).run().ok());
  for (std::uint64_t k = 1; k <= counted.operations(); ++k) {
    SCOPED_TRACE("operation " + std::to_string(k));
    FakeFaults faults;
    const auto device = make_fake_device(&faults);
    faults.fail_after(k, Fault::kDeviceLost);
    EXPECT_FALSE(Work(*device).run().ok());
    EXPECT_TRUE(Work(*device).run().IsIOError());
    EXPECT_EQ(device->memory_used(), 0U);
  }
}

// Goal: the host cannot look into a fake device's runs, and adoption may be refused.
// Method: one run, and both answers of adopt().
// Mutation: a host view lets callers skip read_payloads, which no real device allows.
TEST(FakeDevice, LooksLikeADevice) {
  FakeFaults faults;
  const auto device = make_fake_device(&faults);
  EXPECT_EQ(device->kind(), BackendKind::kCuda);
  const model::Columns keys(plain_host_memory(), {"a"}, true);
  const std::uint64_t offset = 1;
  auto run = device->build_run(keys.ref(), &offset, 8, false, nullptr);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run.value()->host_view(), nullptr);
  std::uint64_t word = 0;
  EXPECT_TRUE(device->adopt(&word, sizeof word));
  faults.refuse_adoption(true);
  EXPECT_FALSE(device->adopt(&word, sizeof word));
}

}  // namespace
}  // namespace breccia::exec
