#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>

#include "batch/key_order.h"
#include "batch/requests.h"
#include "memory/allocation_faults.h"

/// What divides and orders a batch, in a process without memory.

namespace breccia::batch {

namespace {

constexpr FamilyId kFamilies = 3;
constexpr std::uint64_t kRequests = 9000;

std::unique_ptr<Requests> make_whole() {
  auto whole = std::make_unique<Requests>(exec::shared_plain_host_memory());
  for (std::uint64_t i = 0; i < kRequests; ++i) {
    const auto family = static_cast<FamilyId>(i % kFamilies);
    const std::string key = "key" + std::to_string(i % 100);
    EXPECT_TRUE(whole->add_write(record::Op::kPut, family, key, "value").ok());
    EXPECT_TRUE(whole->add_read(family, key).ok());
    if (i % 10 != 0) continue;
    EXPECT_TRUE(whole->add_range(family, key, key + "z", 3).ok());
    EXPECT_TRUE(whole->add_write(record::Op::kDeleteRange, family, key, key + "z").ok());
  }
  return whole;
}

/// Takes every second request of each kind out of `whole`, and orders all. False: out of memory.
bool divide_and_order(const Requests& whole, Requests* part, KeyOrder* order) {
  Selection chosen = whole.none_chosen();
  const auto choose = [](Flags* flags) {
    for (std::size_t i = 0; i < flags->size(); i += 2) (*flags)[i] = 1;
  };
  for (ChosenWrites& writes : chosen.writes) {
    choose(&writes.points);
    choose(&writes.range_deletes);
  }
  for (Flags& reads : chosen.reads) choose(&reads);
  for (Flags& ranges : chosen.ranges) choose(&ranges);
  const Selection others = chosen.others();
  return part->append(whole, chosen) && part->append(whole, others) &&
         order->build(whole.writes()[0].get(), whole.reads()[0].get());
}

void expect_all(const Requests& requests) {
  EXPECT_EQ(requests.write_count(), kRequests + kRequests / 10);
  EXPECT_EQ(requests.read_count(), kRequests);
  EXPECT_EQ(requests.range_count(), kRequests / 10);
}

}  // namespace

// Goal: a batch that is divided and ordered without memory is as before, and can be divided again.
// Method: allocation 1, 2, 3, ... fails, until none is left; after each all is done with memory.
// Mutation: an exception that is not let through, or a batch that loses requests, fails.
TEST(BatchMemory, WantLeavesTheWhole) {
  const std::unique_ptr<Requests> whole = make_whole();
  std::uint64_t failures = 0;
  for (bool failed = true; failed; ++failures) {
    SCOPED_TRACE("allocation " + std::to_string(failures + 1));
    Requests part(exec::shared_plain_host_memory());
    KeyOrder order(exec::plain_host_memory());
    bool done = false;
    testing::arm_allocations(failures + 1, 1);
    try {
      done = divide_and_order(*whole, &part, &order);
    } catch (const std::bad_alloc&) {  // as the contracts say
    }
    testing::disarm_allocations();
    failed = testing::failed_allocations() > 0;
    ASSERT_TRUE(done || failed);
    Requests again(exec::shared_plain_host_memory());
    ASSERT_TRUE(divide_and_order(*whole, &again, &order));
    expect_all(*whole);
    expect_all(again);
    ASSERT_EQ(order.count(), 2 * kRequests / kFamilies);
  }
  EXPECT_GT(failures, 20u);
}

}  // namespace breccia::batch
