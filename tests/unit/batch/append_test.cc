#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "support/seeds.h"

namespace breccia::batch {

namespace {

std::string bytes_of(base::Random* random, std::uint64_t length) {
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random->below(4));
  return bytes;
}

/// Adds the same random request to both.
void add_some(base::Random* random, std::uint64_t key_bytes, Requests* one, Requests* all) {
  const auto key_of = [&] {
    return bytes_of(random, random->one_in(4) ? random->below(30) : key_bytes);
  };
  const auto family = static_cast<FamilyId>(random->below(3));
  const std::string key = key_of();
  const std::string value = bytes_of(random, random->one_in(2) ? 8 : random->below(50));
  constexpr record::Op kOps[] = {record::Op::kPut, record::Op::kDelete, record::Op::kMerge,
                                 record::Op::kDeleteRange};
  const std::uint64_t kind = random->below(8);
  const auto limit = static_cast<std::uint32_t>(random->below(9));
  for (Requests* const to : {one, all}) {
    if (kind < 4) {
      const bool is_range = kOps[kind] == record::Op::kDeleteRange;
      ASSERT_TRUE(to->add_write(kOps[kind], family, key, is_range ? key + value : value).ok());
    } else if (kind < 7) {
      ASSERT_TRUE(to->add_read(family, key).ok());
    } else {
      ASSERT_TRUE(to->add_range(family, key, key + value, limit).ok());
    }
  }
}

void expect_same_keys(const record::KeyColumnsRef& a, const record::KeyColumnsRef& b) {
  ASSERT_EQ(a.count, b.count);
  for (std::uint64_t i = 0; i < a.count; ++i) {
    ASSERT_EQ(a.bytes_at(i), b.bytes_at(i)) << i;
    ASSERT_EQ(record::compare_keys(a, i, b, i), 0) << i;
  }
}

template <class Part>
const Part* find(const std::vector<std::unique_ptr<Part>>& parts, FamilyId family) {
  for (const auto& part : parts) {
    if (part->family() == family) return part.get();
  }
  return nullptr;
}

void expect_same_writes(const Writes& a, const Writes& b) {
  ASSERT_EQ(a.record_bytes(), b.record_bytes());
  // All of the records' bytes, padding too, as it is checksummed.
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a.records()), a.record_bytes()),
            std::string(reinterpret_cast<const char*>(b.records()), b.record_bytes()));
  EXPECT_EQ(a.record_count(), b.record_count());
  EXPECT_EQ(a.range_deletes(), b.range_deletes());
  EXPECT_EQ(a.merges(), b.merges());
  EXPECT_EQ(a.only_numbers(), b.only_numbers());
  expect_same_keys(a.keys(), b.keys());
  for (std::uint64_t i = 0; i < a.point_count(); ++i) EXPECT_EQ(a.offsets()[i], b.offsets()[i]);
}

void expect_same(const Requests& a, const Requests& b) {
  EXPECT_EQ(a.write_count(), b.write_count());
  EXPECT_EQ(a.record_bytes(), b.record_bytes());
  EXPECT_EQ(a.record_count(), b.record_count());
  EXPECT_EQ(a.read_count(), b.read_count());
  EXPECT_EQ(a.range_count(), b.range_count());
  for (FamilyId family = 0; family < 3; ++family) {
    SCOPED_TRACE("family " + std::to_string(family));
    const Writes* const writes = find(a.writes(), family);
    ASSERT_EQ(writes == nullptr, find(b.writes(), family) == nullptr);
    if (writes != nullptr) expect_same_writes(*writes, *find(b.writes(), family));
    const Reads* const reads = find(a.reads(), family);
    ASSERT_EQ(reads == nullptr, find(b.reads(), family) == nullptr);
    for (std::uint64_t i = 0; reads != nullptr && i < reads->count(); ++i) {
      ASSERT_EQ(reads->after()[i], find(b.reads(), family)->after()[i]) << i;
    }
    if (reads != nullptr) expect_same_keys(reads->keys(), find(b.reads(), family)->keys());
    const Ranges* const ranges = find(a.ranges(), family);
    ASSERT_EQ(ranges == nullptr, find(b.ranges(), family) == nullptr);
    if (ranges == nullptr) continue;
    const Ranges& others = *find(b.ranges(), family);
    expect_same_keys(ranges->begin(), others.begin());
    expect_same_keys(ranges->end(), others.end());
    for (std::uint64_t i = 0; i < ranges->count(); ++i) {
      ASSERT_EQ(ranges->after()[i], others.after()[i]) << i;
      ASSERT_EQ(ranges->limits()[i], others.limits()[i]) << i;
    }
  }
}

}  // namespace

// Goal: batches put together are, to the byte, the batch of all their requests.
// Method: random batches of three families, empty ones among them, appended one by one, against a
//         batch to which each request was added; then results are handed back to each.
// Mutation: counting the family's name twice, or from a wrong place, fails.
TEST(Requests, AppendIsAddingAll) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::replay_command(seed));
    base::Random random(seed);
    Requests together(exec::shared_plain_host_memory());
    Requests all(exec::shared_plain_host_memory());
    std::vector<std::unique_ptr<Requests>> batches;
    const std::uint64_t key_bytes = random.below(30);
    for (std::uint64_t i = 1 + random.below(8); i > 0; --i) {
      batches.push_back(std::make_unique<Requests>(exec::shared_plain_host_memory()));
      for (std::uint64_t n = random.below(12); n > 0; --n) {
        add_some(&random, key_bytes, batches.back().get(), &all);
      }
      ASSERT_TRUE(together.append(*batches.back()));
    }
    expect_same(together, all);

    // Each result names its place in the whole batch.
    ASSERT_TRUE(together.prepare_results(1, false));
    for (const auto& reads : together.reads()) {
      for (std::uint32_t i = 0; i < reads->count(); ++i) {
        reads->results()[i] = {nullptr, i, Status::Code::kOk};
      }
    }
    std::vector<std::uint32_t> next(3, 0);
    for (const auto& batch : batches) {
      ASSERT_TRUE(batch->prepare_results(0, false));
      together.hand_over(batch.get());
      for (const auto& reads : batch->reads()) {
        for (std::uint64_t i = 0; i < reads->count(); ++i) {
          ASSERT_EQ(reads->results()[i].bytes, next[reads->family()]++);
        }
      }
    }
  }
}

}  // namespace breccia::batch
