#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "batch/requests.h"

/// Compares batches with requests to families 0, 1 and 2, to the byte.

namespace breccia::batch {

inline void expect_same_keys(const record::KeyColumnsRef& a, const record::KeyColumnsRef& b) {
  ASSERT_EQ(a.count, b.count);
  for (std::uint64_t i = 0; i < a.count; ++i) {
    ASSERT_EQ(a.bytes_at(i), b.bytes_at(i)) << i;
    ASSERT_EQ(record::compare_keys(a, i, b, i), 0) << i;
  }
}

/// The part for `family`, or `none`.
template <class Part>
const Part& part_for(const std::vector<std::unique_ptr<Part>>& parts, FamilyId family,
                     const Part& none) {
  for (const auto& part : parts) {
    if (part->family() == family) return *part;
  }
  return none;
}

/// The records, in pieces of any size.
inline std::string bytes_of(const Writes& writes) {
  writes.settle();
  std::string all(writes.record_bytes(), '.');
  std::uint64_t piece = 1;
  for (std::uint64_t at = 0, end = 0; at < all.size(); at = end, piece = piece * 5 % 4999) {
    end = std::min<std::uint64_t>(at + piece, all.size());
    auto* const place = reinterpret_cast<std::byte*>(all.data() + at);
    const std::byte* const found = writes.bytes(at, end, place);
    if (found != place) std::memcpy(place, found, end - at);
  }
  return all;
}

inline void expect_same_writes(const Writes& a, const Writes& b) {
  ASSERT_EQ(a.record_bytes(), b.record_bytes());
  // All of the records' bytes, padding too, as it is checksummed.
  EXPECT_EQ(bytes_of(a), bytes_of(b));
  EXPECT_EQ(a.record_count(), b.record_count());
  EXPECT_EQ(a.range_deletes(), b.range_deletes());
  EXPECT_EQ(a.merges(), b.merges());
  EXPECT_EQ(a.deletes(), b.deletes());
  EXPECT_EQ(a.only_numbers(), b.only_numbers());
  expect_same_keys(a.keys(), b.keys());
  for (std::uint64_t i = 0; i < a.point_count(); ++i) {
    EXPECT_EQ(a.offsets()[i], b.offsets()[i]);
    if (a.only_numbers()) {
      EXPECT_EQ(a.numbers()[i], b.numbers()[i]);
    }
  }
}

/// Compares two batches; of a family without requests one of them may have an empty part.
inline void expect_same(const Requests& a, const Requests& b) {
  EXPECT_EQ(a.write_count(), b.write_count());
  EXPECT_EQ(a.record_bytes(), b.record_bytes());
  EXPECT_EQ(a.record_count(), b.record_count());
  EXPECT_EQ(a.read_count(), b.read_count());
  EXPECT_EQ(a.range_count(), b.range_count());
  for (FamilyId family = 0; family < 3; ++family) {
    SCOPED_TRACE("family " + std::to_string(family));
    const Writes no_writes(family, exec::plain_host_memory());
    expect_same_writes(part_for(a.writes(), family, no_writes),
                       part_for(b.writes(), family, no_writes));
    const Reads no_reads(family, exec::plain_host_memory());
    const Reads& reads = part_for(a.reads(), family, no_reads);
    const Reads& other_reads = part_for(b.reads(), family, no_reads);
    expect_same_keys(reads.keys(), other_reads.keys());
    for (std::uint64_t i = 0; i < reads.count(); ++i) {
      ASSERT_EQ(reads.after(i), other_reads.after(i)) << i;
    }
    const Ranges no_ranges(family, exec::plain_host_memory());
    const Ranges& ranges = part_for(a.ranges(), family, no_ranges);
    const Ranges& others = part_for(b.ranges(), family, no_ranges);
    expect_same_keys(ranges.begin(), others.begin());
    expect_same_keys(ranges.end(), others.end());
    EXPECT_EQ(ranges.probes(), others.probes());
    for (std::uint64_t i = 0; i < ranges.count(); ++i) {
      ASSERT_EQ(ranges.after()[i], others.after()[i]) << i;
      ASSERT_EQ(ranges.limits()[i], others.limits()[i]) << i;
    }
  }
}

}  // namespace breccia::batch
