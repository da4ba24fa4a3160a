#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

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

/// Columns that threads share, and smaller ones to other families, of which there are places then.
class ColumnsToAdd {
 public:
  ColumnsToAdd() {
    offsets_.push_back(0);
    for (std::int64_t i = 0; i < kCount; ++i) {
      bytes_ += "key" + std::to_string(i);
      offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
    }
  }

  Status add_to(Batch* batch, int step) const {
    const auto some = BytesColumn::Variable(bytes_.data(), offsets_.data(), 100);
    const auto many = BytesColumn::Variable(bytes_.data(), offsets_.data(), kCount);
    const auto fixed = BytesColumn::Fixed(bytes_.data(), 100, 8);
    const auto values = BytesColumn::Fixed("a value", 100, 7, 0);
    switch (step) {
      case 0:
        return batch->Put(2, many, many);
      case 1:
        return batch->Get(2, many);
      case 2:
        return batch->Get(1, some, {memory_, 8, 8, found_});
      case 3:
        return batch->Merge(1, fixed, values);
      case 4:
        return batch->Range(1, some, fixed, 5);
      case 5:
        return batch->Put(1, some, values);
      case 6:
        return batch->Get(0, fixed, {memory_, 8, 8, found_});
      case 7:
        return batch->Delete(0, some);
      default:
        return batch->Range(0, fixed, some, 5);
    }
  }
  static constexpr int kSteps = 9;

 private:
  static constexpr std::int64_t kCount = 40'000;
  std::string bytes_;
  std::vector<std::int64_t> offsets_;
  mutable char memory_[800];
  mutable std::uint8_t found_[100];
};

}  // namespace

// Goal: columns that find no memory leave the batch as it was.
// Method: allocation 1, 2, 3, ... fails, until none is left; each call that failed is made again
//   with memory. The batch is then, in counts and bytes, the one that always had memory.
// Mutation: places of reads that are added before there is memory for all, or an exception of TBB's
//   that is let through, fails.
TEST(BatchMemory, ColumnsAreAddedOrNot) {
  const ColumnsToAdd columns;
  Batch whole;
  for (int step = 0; step < ColumnsToAdd::kSteps; ++step) {
    ASSERT_TRUE(columns.add_to(&whole, step).ok());
  }
  std::uint64_t failures = 0;
  for (bool failed = true; failed; ++failures) {
    SCOPED_TRACE("allocation " + std::to_string(failures + 1));
    Batch batch;
    std::uint64_t seen = 0;
    testing::arm_allocations(failures + 1, 1);
    for (int step = 0; step < ColumnsToAdd::kSteps; ++step) {
      const std::uint64_t before = batch.writes() + batch.reads() + batch.ranges();
      const std::uint64_t bytes = batch.bytes();
      const Status status = columns.add_to(&batch, step);
      if (status.ok()) continue;
      ++seen;
      ASSERT_TRUE(status.IsMemoryLimit());
      ASSERT_EQ(batch.writes() + batch.reads() + batch.ranges(), before);
      ASSERT_EQ(batch.bytes(), bytes);
      ASSERT_TRUE(columns.add_to(&batch, step).ok()) << "the only want is over";
    }
    testing::disarm_allocations();
    failed = testing::failed_allocations() > 0;
    ASSERT_LE(seen, failed ? 1U : 0U);
    ASSERT_EQ(batch.writes(), whole.writes());
    ASSERT_EQ(batch.reads(), whole.reads());
    ASSERT_EQ(batch.ranges(), whole.ranges());
    ASSERT_EQ(batch.bytes(), whole.bytes());
    Requests& requests = batch.requests();
    ASSERT_TRUE(requests.prepare_results(1, /*with_bounds=*/true));
    ASSERT_EQ(requests.result_count(), whole.reads());
  }
  EXPECT_GT(failures, 10u);
}

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
