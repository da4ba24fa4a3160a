#include "exec/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "exec/fake/fake_device.h"
#include "exec/sim/sim_device.h"
#include "support/fake_gpu.h"

namespace breccia::exec {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A tenant that holds blocks of a MiB, and gives one when it is asked.
class Holder {
 public:
  Holder(const DevicePtr& device, std::uint64_t bytes_max, GiveCost cost)
      : tenant_(device->admit({.name = "holder", .bytes_max = bytes_max, .cost = cost}).take()) {
    tenant_->answer({.give = [this](std::uint64_t) { ++asked_, give_one(); },
                     .lost = [this](const Status& why) { lost_.push_back(why); }});
  }
  ~Holder() {
    tenant_->be_left_alone();
    while (give_one()) {
    }
  }

  bool take() {
    void* const block = tenant_->pool().allocate(kMiB);
    if (block != nullptr) blocks_.push_back(block);
    return block != nullptr;
  }
  bool give_one() {
    if (blocks_.empty()) return false;
    tenant_->pool().release(blocks_.back(), kMiB);
    blocks_.pop_back();
    return true;
  }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] int asked() const { return asked_; }
  [[nodiscard]] const std::vector<Status>& lost() const { return lost_; }
  Tenant& tenant() { return *tenant_; }

 private:
  TenantPtr tenant_;
  std::vector<void*> blocks_;
  std::vector<Status> lost_;
  int asked_ = 0;
};

}  // namespace

// Goal: a device is made once for a process, by its number, and anew when nobody has it.
// Method: two fakes beside each other; the host; a number that no machine has.
// Mutation: a registry that forgets the number hands out the other device.
TEST(Device, OneForEachNumber) {
  const testing::FakeGpu one;
  const testing::FakeGpu two;
  const auto first = open_device(DeviceKind::kCuda, one.number());
  const auto second = open_device(DeviceKind::kCuda, two.number());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value(), second.value());
  EXPECT_EQ(open_device(DeviceKind::kCuda, one.number()).value(), first.value());
  EXPECT_EQ(open_device(DeviceKind::kHost, 0).value(), open_device(DeviceKind::kHost, 0).value());
  EXPECT_TRUE(open_device(DeviceKind::kCuda, 999).status().IsNotSupported());
}

// Goal: a tenant stays within its budget, all of them within the device.
// Method: two tenants whose budgets add up to more than there is, one after the other.
// Mutation: no bookkeeping gives the second all of its budget.
TEST(Device, BudgetsAndTheWhole) {
  FakeFaults none;
  const DevicePtr device = fake::make_fake_device(&none, 10 * kMiB);
  Holder quiet(device, 7 * kMiB, GiveCost::kFlush);
  quiet.tenant().be_left_alone();
  while (quiet.take()) {
  }
  EXPECT_EQ(quiet.blocks(), 7U);
  Holder second(device, 7 * kMiB, GiveCost::kFlush);
  second.tenant().be_left_alone();
  while (second.take()) {
  }
  EXPECT_EQ(second.blocks(), 3U);
  EXPECT_EQ(device->memory_held(), 10 * kMiB);
  // What one keeps for reuse goes to the other.
  EXPECT_TRUE(quiet.give_one());
  EXPECT_TRUE(second.take());
  EXPECT_FALSE(quiet.take());
}

// Goal: who gives most cheaply is asked first, and nobody else while that is enough; who asks is
//   not asked.
// Method: a device full of copies, of what can be built again and of what must be flushed.
// Mutation: asking in the order of arrival makes the first flush.
TEST(Device, TheCheapestGiveFirst) {
  FakeFaults none;
  const DevicePtr device = fake::make_fake_device(&none, 6 * kMiB);
  Holder flushes(device, 0, GiveCost::kFlush);
  Holder copies(device, 0, GiveCost::kCopy);
  Holder clean(device, 0, GiveCost::kClean);
  for (Holder* const one : {&flushes, &copies, &clean}) {
    EXPECT_TRUE(one->take());
    EXPECT_TRUE(one->take());
  }
  EXPECT_TRUE(flushes.take());
  EXPECT_TRUE(flushes.take());
  EXPECT_EQ(copies.blocks(), 0U);
  EXPECT_EQ(clean.asked(), 0);
  EXPECT_TRUE(flushes.take());
  EXPECT_EQ(clean.blocks(), 1U);
  EXPECT_EQ(flushes.asked(), 0);
  EXPECT_TRUE(copies.take());
  EXPECT_TRUE(copies.take());  // of the flusher's, when the others have nothing left
  EXPECT_EQ(clean.blocks(), 0U);
  EXPECT_EQ(flushes.asked(), 1);
}

// Goal: what was given for a large block goes to it, not to small ones that come meanwhile.
// Method: a device of 4 MiB, all of it held by one tenant, which gives it when it is asked; before
//   the asker goes on, another tenant asks for a MiB.
// Mutation: booking whatever is free lets the small one take what was given, and any number of
// them.
TEST(Device, ConcurrentSmallClaimsDoNotOvertake) {
  FakeFaults none;
  const DevicePtr device = fake::make_fake_device(&none, 4 * kMiB);
  const TenantPtr giver = device->admit({.name = "giver"}).take();
  const TenantPtr large = device->admit({.name = "large"}).take();
  const TenantPtr small = device->admit({.name = "small"}).take();
  void* const held = giver->pool().allocate(4 * kMiB);
  std::thread overtaker;
  std::atomic<void*> taken{nullptr};
  giver->answer({.give =
                     [&](std::uint64_t) {
                       if (overtaker.joinable()) return;  // it asks, too, and finds nothing
                       giver->pool().release(held, 4 * kMiB);
                       giver->pool().trim();
                       overtaker = std::thread([&] { taken = small->pool().allocate(kMiB); });
                       std::this_thread::sleep_for(std::chrono::milliseconds(50));
                     },
                 .lost = {}});
  void* const block = large->pool().allocate(4 * kMiB);
  EXPECT_NE(block, nullptr);
  overtaker.join();
  EXPECT_EQ(taken.load(), nullptr);
  giver->be_left_alone();
  if (block != nullptr) large->pool().release(block, 4 * kMiB);
  if (taken != nullptr) small->pool().release(taken, kMiB);
}

// Goal: a lost device says so to each tenant once, also to one that listens late, and takes no new
//   ones.
// Method: a fake loses itself in a call of one of two.
// Mutation: telling only who called leaves the other with memory that is gone.
TEST(Device, LossIsToldToAll) {
  testing::FakeGpu gpu;
  const DevicePtr device = open_device(DeviceKind::kCuda, gpu.number()).value();
  Holder here(device, 0, GiveCost::kFlush);
  Holder there(device, 0, GiveCost::kCopy);
  gpu.faults.fail_after(1, Fault::kDeviceLost);
  auto& tenant = static_cast<fake::FakeTenant&>(here.tenant());
  EXPECT_TRUE(tenant.executor().status().IsIOError());
  for (Holder* const one : {&here, &there}) {
    ASSERT_EQ(one->lost().size(), 1U);
    EXPECT_TRUE(one->lost().front().IsIOError());
  }
  device->lose(Status::IOError("again"));
  EXPECT_EQ(here.lost().size(), 1U);
  int told = 0;
  there.tenant().answer({.give = {}, .lost = [&](const Status&) { ++told; }});
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(device->admit({.name = "late"}).status().IsIOError());
  EXPECT_TRUE(open_device(DeviceKind::kCuda, gpu.number()).status().IsIOError());
}

// Goal: tenants that come, go, take and give at once keep the books.
// Method: threads with a small device; at the end nothing is held.
// Mutation: a booking that is not given back with the pool leaves bytes behind.
TEST(Device, ConcurrentTenantsKeepTheBooks) {
  FakeFaults none;
  const DevicePtr device = fake::make_fake_device(&none, 8 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        Holder holder(device, (1 + t) * kMiB, GiveCost::kFlush);
        holder.tenant().be_left_alone();  // a holder's blocks have one owner
        for (int i = 0; i < 4; ++i) (void)holder.take();
        EXPECT_LE(device->memory_held(), 8 * kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->memory_held(), 0U);
}

}  // namespace breccia::exec
