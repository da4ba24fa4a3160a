#include "batch/requests.h"

#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.h"
#include "base/random.h"

namespace breccia::batch {

namespace {

std::string random_key(base::Random* random) {
  constexpr std::uint64_t kLengths[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1000};
  std::string key(kLengths[random->below(std::size(kLengths))], '\0');
  for (char& c : key) c = static_cast<char>(random->one_in(3) ? 0 : random->next());
  return key;
}

std::string restored(const exec::KeyColumnsRef& keys, std::uint64_t i) {
  std::string key(keys.bytes_at(i), 'x');
  restore_key(keys, i, key.data());
  return key;
}

}  // namespace

// Goal: keys up to 64 KiB and values up to 1 GiB are taken, longer ones refused, nothing changed.
// Method: limit - 1, limit, limit + 1 for keys; a value of 1 GiB + 1 that has no memory behind it.
// Mutation: `<` instead of `<=` in the key check, or copying before checking, fails.
TEST(Requests, Limits) {
  Requests requests(exec::shared_plain_host_memory());
  std::uint64_t added = 0;
  for (const std::uint64_t bytes : {limits::kKeyBytesMax - 1, limits::kKeyBytesMax}) {
    const std::string key(bytes, 'k');
    EXPECT_TRUE(requests.add_write(wal::Op::kPut, key, "v").ok());
    EXPECT_TRUE(requests.add_write(wal::Op::kDelete, key, Slice()).ok());
    EXPECT_TRUE(requests.add_read(key).ok());
    ++added;
  }
  const std::uint64_t bytes_before = requests.record_bytes();
  const std::string too_long(limits::kKeyBytesMax + 1, 'k');
  EXPECT_TRUE(requests.add_write(wal::Op::kPut, too_long, "v").IsInvalidArgument());
  EXPECT_TRUE(requests.add_write(wal::Op::kDelete, too_long, Slice()).IsInvalidArgument());
  EXPECT_TRUE(requests.add_read(too_long).IsInvalidArgument());
  const Slice huge("unread", limits::kValueBytesMax + 1);
  EXPECT_TRUE(requests.add_write(wal::Op::kPut, "k", huge).IsInvalidArgument());
  EXPECT_EQ(requests.write_count(), 2 * added);
  EXPECT_EQ(requests.read_count(), added);
  EXPECT_EQ(requests.record_bytes(), bytes_before);
}

// Goal: records, offsets, columns and read places say what was added, in its order.
// Method: random mixes of all lengths, also of one length only, compared with a list.
// Mutation: taking a key's place in the tail before the columns turn variable fails.
TEST(Requests, KeepsWhatWasAdded) {
  struct One {
    std::string key;
    std::string value;
    wal::Op op;
  };
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Random random(seed);
    Requests requests(exec::shared_plain_host_memory());
    std::vector<One> writes;
    std::vector<std::pair<std::string, std::uint64_t>> reads;
    const std::uint64_t count = random.below(100);
    const std::uint64_t uniform_until = random.below(100);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string key = i < uniform_until ? std::string(12, 'u') : random_key(&random);
      if (random.one_in(3)) {
        ASSERT_TRUE(requests.add_read(key).ok());
        reads.emplace_back(key, requests.record_bytes());
        continue;
      }
      const wal::Op op = random.one_in(3) ? wal::Op::kDelete : wal::Op::kPut;
      const std::string value(op == wal::Op::kPut ? random.below(40) : 0, 'v');
      ASSERT_TRUE(requests.add_write(op, key, value).ok());
      writes.push_back({key, value, op});
    }
    ASSERT_EQ(requests.write_count(), writes.size());
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const std::uint64_t offset = wal::position_of(requests.write_offsets()[i]);
      const std::byte* const record = requests.records() + offset;
      const wal::RecordHeader header = wal::record_header(record);
      ASSERT_EQ(wal::op_of(requests.write_offsets()[i]), writes[i].op);
      ASSERT_EQ(header.op(), writes[i].op);
      const std::string stored(wal::record_key(record), header.key_bytes() + header.value_bytes);
      ASSERT_EQ(stored, writes[i].key + writes[i].value);
      ASSERT_EQ(restored(requests.write_keys(), i), writes[i].key);
    }
    ASSERT_EQ(requests.read_count(), reads.size());
    for (std::size_t i = 0; i < reads.size(); ++i) {
      ASSERT_EQ(restored(requests.read_keys(), i), reads[i].first);
      ASSERT_EQ(requests.read_after()[i], reads[i].second);
    }
  }
}

// Goal: results lie in the order of the reads and keep their bytes in place.
// Method: 1,000 results whose values force the arena to grow.
// Mutation: moving an arena's blocks when it grows fails.
TEST(Requests, ResultsStayInPlace) {
  constexpr std::size_t kReads = 1000;
  Requests requests(exec::shared_plain_host_memory());
  for (std::size_t i = 0; i < kReads; ++i) ASSERT_TRUE(requests.add_read("k").ok());
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(requests.prepare_results(3, /*with_bounds=*/true));
    ASSERT_EQ(requests.result_count(), kReads);
    for (std::size_t i = 0; i < kReads; ++i) {
      const std::uint64_t bytes = i % 300;
      char* const value = requests.arena(i % 3).allocate(bytes);
      std::fill_n(value, bytes, static_cast<char>(i));
      requests.results()[i] = {value, static_cast<std::uint32_t>(bytes), Status::Code::kOk};
    }
    for (std::size_t i = 0; i < kReads; ++i) {
      const ReadResult& result = requests.results()[i];
      ASSERT_EQ(Slice(result.data, result.bytes), std::string(i % 300, static_cast<char>(i)));
    }
  }
}

// Goal: Clear makes a batch as new.
// Method: fill, clear, fill with less; the counts and the bytes are those of the second filling.
// Mutation: leaving out one of the arrays in Requests::clear fails.
TEST(Requests, ClearForgetsEverything) {
  Batch batch;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(batch.Put("key " + std::to_string(i), "value").ok());
    ASSERT_TRUE(batch.Get("key").ok());
  }
  batch.Clear();
  EXPECT_EQ(batch.writes(), 0u);
  EXPECT_EQ(batch.reads(), 0u);
  EXPECT_EQ(batch.bytes(), 0u);
  ASSERT_TRUE(batch.Get("a").ok());
  ASSERT_TRUE(batch.Put("b", "c").ok());
  EXPECT_EQ(batch.writes(), 1u);
  EXPECT_EQ(batch.reads(), 1u);
  EXPECT_EQ(batch.requests().read_after()[0], 0u);
  EXPECT_EQ(batch.requests().result_count(), 0u);
  EXPECT_EQ(restored(batch.requests().write_keys(), 0), "b");
}

}  // namespace breccia::batch
