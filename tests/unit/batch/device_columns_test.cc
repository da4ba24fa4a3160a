#include "batch/device_columns.h"

#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "batch/answers.h"
#include "batch/requests.h"
#include "support/random_column.h"
#include "support/seeds.h"
#include "unit/batch/bus_memory.h"
#include "unit/batch/same_requests.h"

namespace breccia::batch {

namespace {

std::vector<std::string> random_strings(std::uint64_t count, base::Random* random) {
  constexpr std::uint64_t kLengths[] = {0, 1, 8, 16, 17, 100};
  const std::uint64_t length = kLengths[random->below(std::size(kLengths))];
  const bool same = random->one_in(2);
  std::vector<std::string> strings;
  for (std::uint64_t i = 0; i < count; ++i) {
    strings.emplace_back(same ? length : random->below(2 * length + 1),
                         static_cast<char>('a' + random->below(26)));
  }
  return strings;
}

/// A call with columns on the host, and the same on a device.
struct Call {
  Call(BusMemory* bus, base::Random* random)
      : keys(random_strings(random->below(70), random)),
        others(random_strings(keys.size(), random)),
        key_column(keys, random),
        other_column(others, random),
        keys_there(random->one_in(4) ? key_column.column() : bus->put(key_column.column())),
        others_there(random->one_in(4) ? other_column.column() : bus->put(other_column.column())),
        kind(random->below(5)) {}

  Status add(Requests* to, const BytesColumn& first, const BytesColumn& second) const {
    const std::vector<std::uint32_t> limits(first.count(), 7);
    switch (kind) {
      case 0:
        return to->add_reads(1, first, ValueArray());
      case 1:
        return to->add_ranges(1, first, second, limits);
      case 2:
        return to->add_writes(record::Op::kMerge, 1, first, second);
      default:
        return to->add_writes(record::Op::kPut, 1, first, second);
    }
  }
  Status add_host(Requests* to) const {
    return add(to, key_column.column(), other_column.column());
  }
  Status add_there(Requests* to) const { return add(to, keys_there, others_there); }

  std::vector<std::string> keys;
  std::vector<std::string> others;
  testing::RandomColumn key_column;
  testing::RandomColumn other_column;
  BytesColumn keys_there;
  BytesColumn others_there;
  std::uint64_t kind;
};

}  // namespace

// Goal: columns on a device make the batch that the same columns make on the host; a failure of the
//   bus or of memory changes nothing.
// Method: random calls in any form, in both; before some of them each copy over the bus fails in
//   turn. The device's memory gives a signal to whoever looks at it.
// Mutation: a negative stride that begins at its other end, offsets that count from the copy's
//   begin, or copies that are given back while records are still in them fails.
TEST(DeviceColumns, AreThoseOfTheHost) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto bus = std::make_shared<BusMemory>();
    Requests there(bus);
    Requests here(exec::shared_plain_host_memory());
    for (int round = 0; round < 2; ++round) {
      there.set_columns_in_place(random.one_in(2));
      std::vector<std::unique_ptr<Call>> calls;
      for (std::uint64_t more = random.below(6); more > 0; --more) {
        calls.push_back(std::make_unique<Call>(bus.get(), &random));
        const Call& call = *calls.back();
        bool is_added = false;
        for (std::uint64_t copy = random.one_in(2) ? 1 : 0; !is_added; ++copy) {
          bus->fail_at(copy);
          const Status status = call.add_there(&there);
          bus->fail_at(0);
          is_added = status.ok();
          ASSERT_TRUE(is_added || status.IsIOError()) << status.ToString();
          if (!is_added) expect_same(there, here);
        }
        ASSERT_TRUE(call.add_host(&here).ok());
      }
      expect_same(there, here);
      there.clear();
      here.clear();
      bus->forget();
    }
    if (HasFailure()) return;
  }
}

// Goal: values go to arrays on a device when all are there, each to its place, and nothing besides;
//   where the device does not take them, their reads say so.
// Method: lookups with arrays on a device, at strides, and beside them some without; odd ones find
//   nothing. In every third batch the bus fails once.
// Mutation: rows that are copied as if there were no gaps between them, or flags that are not.
TEST(DeviceColumns, TakeValues) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto bus = std::make_shared<BusMemory>();
    Requests requests(bus);
    const std::size_t width = random.one_in(2) ? 8 : 1 + random.below(40);
    const std::size_t stride = width + random.below(3) * random.below(9);
    const std::uint64_t count = 1 + random.below(200);
    ASSERT_TRUE(requests.add_read(0, "alone").ok());
    const std::vector<char> untouched(count * stride, '.');
    ValueArray into;
    std::byte* const values = bus->put(untouched.data(), untouched.size());
    std::byte* const found = bus->put(untouched.data(), count);
    into.values = values;
    into.width = width;
    into.stride = static_cast<std::ptrdiff_t>(stride);
    into.found = reinterpret_cast<std::uint8_t*>(found);
    into.on_device = true;
    into.stream = bus.get();
    const std::string keys(3 * count, 'k');
    ASSERT_TRUE(requests.add_reads(0, BytesColumn::Fixed(keys.data(), count, 3), into).ok());
    ASSERT_TRUE(requests.add_read(0, "alone").ok());
    ASSERT_TRUE(requests.prepare_results(1, /*with_bounds=*/false));
    Reads& reads = *requests.reads()[0];
    Answers answers(&reads, &requests.arena(0));
    for (std::uint64_t i = 0; i < reads.count(); ++i) {
      const std::string value(width, static_cast<char>('a' + i % 26));
      if (i % 2 == 1) {
        answers.add(i, Status::Code::kNotFound);
      } else {
        answers.add_value(i, value);
      }
    }
    const bool fails = random.one_in(3);
    if (fails) bus->fail_at(1 + random.below(2));
    requests.deliver();
    const std::vector<char> got = bus->get(values, untouched.size());
    const std::vector<char> flags = bus->get(found, count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t read = i + 1;
      if (fails) {
        ASSERT_EQ(requests.result(read).code, Status::Code::kIOError);
        continue;
      }
      const bool is_there = read % 2 == 0;
      ASSERT_EQ(requests.result(read).code, is_there ? Status::Code::kOk : Status::Code::kNotFound);
      ASSERT_EQ(flags[i], is_there ? 1 : 0);
      const std::string row(got.data() + i * stride, width);
      if (is_there) {
        ASSERT_EQ(row, std::string(width, static_cast<char>('a' + read % 26)));
      }
      const bool is_last = i + 1 == count;
      const std::string gap(got.data() + i * stride + width, is_last ? 0 : stride - width);
      ASSERT_EQ(gap, std::string(gap.size(), '.'));
    }
    ASSERT_EQ(requests.result(0).code, Status::Code::kOk);
    if (HasFailure()) return;
  }
}

// Goal: what cannot be is refused, and says what to do.
// Method: a batch that no device stands beside; slices, strings and values that overlap, offsets
//   that fall.
// Mutation: reading the arrays on the host instead.
TEST(DeviceColumns, WhatCannotBe) {
  BusMemory device;
  const std::string keys = "abcdef";
  const BytesColumn there = device.put(BytesColumn::Fixed(keys.data(), 3, 2));
  Batch alone;
  EXPECT_TRUE(alone.Put(kDefaultFamily, there, there).IsNotSupported());
  EXPECT_EQ(alone.writes(), 0U);

  const auto bus = std::make_shared<BusMemory>();
  Requests requests(bus);
  const auto refuses = [&](const BytesColumn& column) {
    return requests.add_reads(0, BytesColumn::OnDevice(column, bus.get()), ValueArray())
        .IsInvalidArgument();
  };
  const Slice slices[] = {"a", "b"};
  EXPECT_TRUE(refuses(BytesColumn::Slices(slices, 2)));
  const std::byte* const at = bus->put(keys.data(), keys.size());
  EXPECT_TRUE(refuses(BytesColumn::Fixed(at, 3, 2, 1)));
  const std::int32_t falling[] = {0, 4, 2};
  const auto* const offsets =
      reinterpret_cast<const std::int32_t*>(bus->put(falling, sizeof falling));
  EXPECT_TRUE(refuses(BytesColumn::Variable(at, offsets, 2)));
  ValueArray overlapping;
  overlapping.values = overlapping.found = reinterpret_cast<std::uint8_t*>(bus->put("", 1));
  overlapping.width = 8;
  overlapping.stride = 4;
  overlapping.on_device = true;
  const BytesColumn good = bus->put(BytesColumn::Fixed(keys.data(), 3, 2));
  EXPECT_TRUE(requests.add_reads(0, good, overlapping).IsInvalidArgument());
  EXPECT_EQ(requests.read_count(), 0U);
}

}  // namespace breccia::batch
