#include "support/backends.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "conformance/runs_model.h"

namespace breccia::runs {
namespace {

/// Each of a backend's calls with known answers: one piece of work that may fail anywhere.
/// Both versions of `a` and the newer one of `bb` are merge operands.
class Work {
 public:
  explicit Work(Backend& backend) : backend_(backend) {}

  Status run() {
    const model::Columns first(exec::plain_host_memory(), {"bb", "a", "cccccccccc", "a"}, true);
    const model::Columns second(exec::plain_host_memory(), {"dd", "bb", "", "cccccccccd"}, true);
    const std::vector<std::uint64_t> offsets{1, 10, 17, 26};
    std::vector<std::uint32_t> descriptors(4);
    const std::vector<std::uint64_t> values{101, 102, 103, 104};
    BRECCIA_TAKE(const RunPtr older,
                 backend_.build_run({first.ref(), offsets.data(), 8, values.data(), false},
                                    descriptors.data()));
    BRECCIA_TAKE(
        const RunPtr newer,
        backend_.build_run({second.ref(), offsets.data(), 80, values.data(), false}, nullptr));
    const RunPtr both[] = {newer, older};
    BRECCIA_TRY(merge(both, Keep::kNewest, {97, 34, 90, 25, 106, 81}));
    BRECCIA_TRY(merge(both, Keep::kStacks, {97, 34, 18, 90, 9, 25, 106, 81}));
    std::vector<std::uint64_t> found(4);
    std::vector<std::uint64_t> found_values(4);
    BRECCIA_TRY(backend_.search(both, QueriesRef{first.ref(), nullptr, 30},
                                {found.data(), found_values.data()}));
    EXPECT_EQ(found, (std::vector<std::uint64_t>{9, 18, 25, 18}));
    EXPECT_EQ(found_values, (std::vector<std::uint64_t>{101, 102, 103, 102}));
    BRECCIA_TRY(walk(both));
    BRECCIA_TRY(build_tied(offsets));
    return update(first.ref(), offsets);
  }

 private:
  Status walk(std::span<const RunPtr> runs) {
    const model::Columns begin(exec::plain_host_memory(), {"", "b"}, true);
    const model::Columns end(exec::plain_host_memory(), {"z", "d"}, true);
    const std::vector<std::uint64_t> out_at{0, 3, 8};
    std::vector<std::uint64_t> out(8);
    std::vector<std::uint32_t> emitted(2);
    const RangesRef ranges{begin.ref(), end.ref(), out_at.data(), nullptr, 100};
    BRECCIA_TRY(backend_.ranges(runs, ranges, {out.data(), nullptr, emitted.data()}));
    EXPECT_EQ(emitted, (std::vector<std::uint32_t>{3, 2}));
    out.resize(5);
    EXPECT_EQ(out, (std::vector<std::uint64_t>{97, 34, 90, 90, 25}));
    return Status::OK();
  }

  /// Keys with a long prefix, of which three have the same word behind it, and more than are put in
  /// order by counting.
  Status build_tied(std::vector<std::uint64_t> offsets) {
    offsets.push_back(33);
    const std::string shared(20, 'p');
    const model::Columns keys(exec::plain_host_memory(),
                              {shared + "ccccccccb", shared + "cccccccca", shared + "d",
                               shared + "ccccccccb", shared + "e"},
                              true);
    BRECCIA_TAKE(const RunPtr run,
                 backend_.build_run({keys.ref(), offsets.data(), 160, nullptr, false}, nullptr));
    const RunPtr one[] = {run};
    return merge(one, Keep::kAll, {170, 186, 161, 177, 193});
  }

  /// The second and the fourth operation are of one key, which has a value, and then a newer one.
  Status update(const record::KeyColumnsRef& keys, const std::vector<std::uint64_t>& operations) {
    const std::vector<std::uint64_t> operands{1, 2, 3, 4};
    const std::vector<std::uint64_t> base{0, 100, 0, 100};
    const std::vector<std::uint8_t> has_base{0, 1, 0, 1};
    std::vector<std::uint64_t> result(4);
    BRECCIA_TAKE(const UpdatePtr begun,
                 backend_.begin_update({keys, operations.data(), operands.data(), base.data(),
                                        has_base.data(), NumberOp::kAdd}));
    bool fits = false;
    BRECCIA_TRY(backend_.finish_update(*begun, {}, result.data(), &fits));
    EXPECT_TRUE(fits);
    EXPECT_EQ(result[1], 102U);
    EXPECT_EQ(result[3], 106U);
    const model::Columns key(exec::plain_host_memory(), {"a"}, true);
    const std::uint64_t offset = 0;
    const std::uint64_t value = 200;
    BRECCIA_TAKE(const RunPtr run,
                 backend_.build_run({key.ref(), &offset, 160, &value, false}, nullptr));
    BRECCIA_TRY(backend_.finish_update(*begun, {&run, 1}, result.data(), &fits));
    EXPECT_TRUE(fits);
    EXPECT_EQ(result[1], 202U);
    EXPECT_EQ(result[3], 206U);
    return Status::OK();
  }

  Status merge(std::span<const RunPtr> runs, Keep keep,
               const std::vector<std::uint64_t>& expected) {
    BRECCIA_TAKE(const RunPtr merged, backend_.merge_runs(runs, keep));
    std::vector<std::uint64_t> payloads(merged->count());
    BRECCIA_TRY(backend_.read_payloads(*merged, payloads.data()));
    EXPECT_EQ(payloads, expected);
    return Status::OK();
  }

  Backend& backend_;
};

constexpr std::uint64_t kNever = 1ULL << 40;

// Goal: whichever operation fails, the call says so, keeps no memory, and leaves the device usable.
// Method: the same work again and again, with operation 1, 2, 3, ... failing, for each fault.
// Mutation: an error that is dropped on the way out ends in wrong payloads or an OK.
TEST(FakeDevice, AnyOperationMayFail) {
  exec::FakeFaults counted;
  ASSERT_TRUE(Work(*testing::make_fake_backend(&counted)).run().ok());
  const std::uint64_t operations = counted.operations();
  ASSERT_GT(operations, 50U);
  for (const exec::Fault fault : {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure}) {
    exec::FakeFaults faults;
    const auto device = testing::make_fake_backend(&faults);
    std::uint64_t failures = 0;
    for (std::uint64_t k = 1; k <= operations; ++k) {
      SCOPED_TRACE("operation " + std::to_string(k));
      faults.fail_after(k, fault);
      // An allocation of nothing succeeds even without memory, so a few failures go unnoticed.
      const Status status = Work(*device).run();
      EXPECT_TRUE(status.ok() || status.IsMemoryLimit() || status.IsIOError());
      failures += status.ok() ? 0 : 1;
      EXPECT_EQ(device->tenant().used(), 0U);
      faults.fail_after(kNever, fault);
      EXPECT_TRUE(Work(*device).run().ok());
    }
    EXPECT_GT(failures, operations * 3 / 4);
  }
}

// Goal: a sort or a merge that goes wrong without a word is noticed before anybody believes it.
// Method: the same work again and again, with sort 1, 2, 3, ... losing an entry and saying OK.
// Mutation: leaving out the check behind builds, updates or merges ends in an OK.
TEST(FakeDevice, AnySortMayBeFalse) {
  exec::FakeFaults counted;
  ASSERT_TRUE(Work(*testing::make_fake_backend(&counted)).run().ok());
  ASSERT_GT(counted.sorts(), 4U);
  for (std::uint64_t k = 1; k <= counted.sorts(); ++k) {
    SCOPED_TRACE("sort " + std::to_string(k));
    exec::FakeFaults faults;
    const auto device = testing::make_fake_backend(&faults);
    faults.falsify_sort(k);
    EXPECT_TRUE(Work(*device).run().IsIOError());
    EXPECT_EQ(device->tenant().used(), 0U);
  }
}

// Goal: a lost device fails every call from then on, and never gives an answer.
// Method: each operation in turn loses a fresh device.
// Mutation: a call that does not wait for what it enqueued answers from a lost device.
TEST(FakeDevice, LostDevicesStayLost) {
  exec::FakeFaults counted;
  ASSERT_TRUE(Work(*testing::make_fake_backend(&counted)).run().ok());
  for (std::uint64_t k = 1; k <= counted.operations(); ++k) {
    SCOPED_TRACE("operation " + std::to_string(k));
    exec::FakeFaults faults;
    const auto device = testing::make_fake_backend(&faults);
    faults.fail_after(k, exec::Fault::kDeviceLost);
    EXPECT_FALSE(Work(*device).run().ok());
    EXPECT_TRUE(Work(*device).run().IsIOError());
    EXPECT_EQ(device->tenant().used(), 0U);
  }
}

// Goal: the host cannot look into a fake device's runs, and adoption may be refused.
// Method: one run, and both answers of adopt().
// Mutation: a host view lets callers skip read_payloads, which no real device allows.
TEST(FakeDevice, LooksLikeADevice) {
  exec::FakeFaults faults;
  const auto device = testing::make_fake_backend(&faults);
  EXPECT_FALSE(device->device().host_reads());
  const model::Columns keys(exec::plain_host_memory(), {"a"}, true);
  const std::uint64_t offset = 1;
  auto run = device->build_run({keys.ref(), &offset, 8, nullptr, false}, nullptr);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run.value()->host_view(), nullptr);
  std::uint64_t word = 0;
  EXPECT_TRUE(device->device().adopt(&word, sizeof word));
  faults.refuse_adoption(true);
  EXPECT_FALSE(device->device().adopt(&word, sizeof word));
}

}  // namespace
}  // namespace breccia::runs
