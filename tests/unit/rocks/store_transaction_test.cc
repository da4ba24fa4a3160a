#include <breccia/store.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "support/append_operator.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

namespace breccia {

namespace {

class StoreTransactionTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    Options options = testing::small_options();
    options.rocksdb.merge_operator = std::make_shared<testing::AppendOperator>();
    store_.reset();
    ASSERT_TRUE(Store::Open(options, folder_ / "store", &store_).ok());
  }
  std::string get(const std::string& key) {
    std::string value;
    const Status status = store_->Get(key, &value);
    return status.ok() ? value : status.ToString();
  }

  const testing::Folder folder_{testing::Place::kMemory};
  std::unique_ptr<Store> store_;
};

std::string key_of(std::uint64_t i) { return "key" + std::to_string(1'000'000 + i); }

}  // namespace

// Goal: nothing of a transaction is seen before Close and all of it after, reads in it see its
//       earlier writes, and one that is not closed does nothing.
// Method: puts, deletes, merges, lookups and a range in one transaction.
// Mutation: answering lookups before the writes differs.
TEST_F(StoreTransactionTest, OpenOperationsClose) {
  ASSERT_TRUE(store_->Put(WriteOptions(), "a", "old").ok());
  {
    const auto abandoned = store_->OpenTransaction();
    ASSERT_TRUE(abandoned->batch().Put("a", "abandoned").ok());
  }
  const auto transaction = store_->OpenTransaction();
  Batch& batch = transaction->batch();
  ASSERT_TRUE(batch.Get("a").ok());
  ASSERT_TRUE(batch.Put("a", "new").ok());
  ASSERT_TRUE(batch.Get("a").ok());
  ASSERT_TRUE(batch.Merge("a", "more").ok());
  ASSERT_TRUE(batch.Put("b", "1").ok());
  ASSERT_TRUE(batch.Range("a", "z", 10).ok());
  ASSERT_TRUE(batch.Delete("b").ok());
  ASSERT_TRUE(batch.Get("b").ok());
  EXPECT_EQ(get("a"), "old");
  ASSERT_TRUE(transaction->Close(WriteOptions()).ok());
  EXPECT_EQ(batch.value(0).ToString(), "old");
  EXPECT_EQ(batch.value(1).ToString(), "new");
  EXPECT_EQ(batch.code(2), Status::Code::kNotFound);
  EXPECT_EQ(batch.range_size(0), 2U);
  EXPECT_EQ(get("a"), "new,more");
  EXPECT_TRUE(transaction->Close(WriteOptions()).IsInvalidArgument());
  Batch reads;
  EXPECT_TRUE(transaction->Read(&reads).IsInvalidArgument());
}

// Goal: what was read before Close is as it was when the transaction was opened, and Close fails,
//       with nothing done, exactly if it has changed since.
// Method: keys and ranges, limited and not, with writes beside them, into them and flushed away.
// Mutation: validating a limited range to its end, or not behind a flush, differs.
TEST_F(StoreTransactionTest, ReadsAreValidated) {
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(store_->Put(WriteOptions(), key, "1").ok());
  }
  struct Case {
    const char* written;
    bool flushes;
    bool expected;
  };
  for (const Case& one :
       {Case{"a", false, false}, Case{"a", true, false}, Case{"e", false, true},
        Case{"e", true, true}, Case{"b5", false, false}, Case{"b5", true, false},
        Case{"c", true, false}, Case{"c5", true, true}, Case{"missing", true, false}}) {
    SCOPED_TRACE(one.written);
    const auto transaction = store_->OpenTransaction();
    ASSERT_TRUE(store_->Put(WriteOptions(), one.written, "2").ok());
    if (one.flushes) {
      ASSERT_TRUE(store_->Flush().ok());
    }
    Batch keys;
    ASSERT_TRUE(keys.Get("a").ok());
    ASSERT_TRUE(keys.Get("missing").ok());
    ASSERT_TRUE(transaction->Read(&keys).ok());
    Batch ranges;
    ASSERT_TRUE(ranges.Range("b", "d", 2).ok());  // ends with c, its second entry
    ASSERT_TRUE(transaction->Read(&ranges).ok());
    EXPECT_EQ(keys.code(1), Status::Code::kNotFound) << "written after it was opened";
    ASSERT_EQ(ranges.range_size(0), 2U);
    EXPECT_EQ(ranges.range_entry(0, 1).first.ToString(), "c");
    ASSERT_TRUE(transaction->batch().Put("result", one.written).ok());
    const Status status = transaction->Close(WriteOptions());
    EXPECT_EQ(status.ok(), one.expected) << status.ToString();
    EXPECT_EQ(get("result") == one.written, one.expected);
    for (const char* key : {"b5", "c5", "missing"}) {
      ASSERT_TRUE(store_->Delete(WriteOptions(), key).ok());
    }
  }
  Batch writes;
  ASSERT_TRUE(writes.Put("x", "1").ok());
  EXPECT_TRUE(store_->OpenTransaction()->Read(&writes).IsInvalidArgument());
}

// Goal: a large transaction is validated as a whole on the backend, and one record in the log.
// Method: 200,000 keys read, half of them written; one that changed among them; a reopen.
// Mutation: comparing only the keys of the first part of the set misses the one that changed.
TEST_F(StoreTransactionTest, Large) {
  constexpr std::uint64_t kKeys = 200'000;
  Batch fill;
  for (std::uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(fill.Put(key_of(i), "old").ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &fill).ok());
  for (const bool changes : {true, false}) {
    const auto transaction = store_->OpenTransaction();
    Batch reads;
    for (std::uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(reads.Get(key_of(i)).ok());
    ASSERT_TRUE(transaction->Read(&reads).ok());
    EXPECT_EQ(reads.value(kKeys - 1).ToString(), "old");
    for (std::uint64_t i = 0; i < kKeys; i += 2) {
      ASSERT_TRUE(transaction->batch().Put(key_of(i), "new").ok());
      ASSERT_TRUE(transaction->batch().Get(key_of(i + 1)).ok());
    }
    if (changes) {
      ASSERT_TRUE(store_->Put(WriteOptions(), key_of(kKeys - 77), "old").ok());
    }
    const Status status = transaction->Close(WriteOptions());
    EXPECT_EQ(status.ok(), !changes) << status.ToString();
    EXPECT_EQ(status.IsBusy(), changes) << status.ToString();
  }
  open();
  EXPECT_EQ(store_->recovery().frames, 3U);
  EXPECT_EQ(get(key_of(kKeys - 2)), "new");
  EXPECT_EQ(get(key_of(kKeys - 1)), "old");
}

// Goal: transactions that read, think and write lose no update, batch or not.
// Method: eight threads add one to each of a set of counters, again where Close says Busy.
// Mutation: validating before the turn to commit is taken loses updates.
TEST_F(StoreTransactionTest, ConcurrentCounters) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 40;
  const std::uint64_t seed = testing::seeds_to_run(1).front();
  SCOPED_TRACE(testing::replay_command(seed));
  std::atomic<int> conflicts{0};
  const auto add_one = [&](std::uint64_t first, std::uint64_t count) {
    const auto transaction = store_->OpenTransaction();
    Batch reads;
    for (std::uint64_t i = 0; i < count; ++i) EXPECT_TRUE(reads.Get(key_of(first + i)).ok());
    EXPECT_TRUE(transaction->Read(&reads).ok());
    for (std::uint64_t i = 0; i < count; ++i) {
      const int before =
          reads.code(i) == Status::Code::kOk ? std::stoi(reads.value(i).ToString()) : 0;
      EXPECT_TRUE(transaction->batch().Put(key_of(first + i), std::to_string(before + 1)).ok());
    }
    const Status status = transaction->Close(WriteOptions());
    EXPECT_TRUE(status.ok() || status.IsBusy()) << status.ToString();
    return status.ok();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(seed * 64 + t);
      for (int round = 0; round < kRounds; ++round) {
        const bool large = random.one_in(4);
        while (!add_one(0, large ? 200 : 2)) ++conflicts;
        if (random.one_in(16)) {
          EXPECT_TRUE(store_->Flush().ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(get(key_of(0)), std::to_string(kThreads * kRounds));
  std::printf("%d conflicts\n", conflicts.load());
}

// Goal: ranges are validated in whatever form they were answered.
// Method: keys and values of 8 bytes, whose ranges a walk answers as pairs, most of them ended by
//       their limits; then a write behind the last key that a range saw, and one that it saw.
// Mutation: taking the last key from records that are not there crashes.
TEST_F(StoreTransactionTest, RangesOfNumbers) {
  constexpr std::uint64_t kKeys = 2000;
  const auto number = [](std::uint64_t i) {
    std::string key(8, '\0');
    const std::uint64_t big_endian = __builtin_bswap64(i);
    std::memcpy(key.data(), &big_endian, sizeof big_endian);
    return key;
  };
  Batch fill;
  for (std::uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(fill.Put(number(i), number(i)).ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &fill).ok());
  for (const bool changed : {false, true}) {
    const auto transaction = store_->OpenTransaction();
    Batch reads;
    for (std::uint64_t i = 0; i < 300; ++i) {
      ASSERT_TRUE(reads.Range(number(i), number(kKeys), 10).ok());
    }
    ASSERT_TRUE(transaction->Read(&reads).ok());
    ASSERT_EQ(reads.range_size(7), 10U);
    EXPECT_EQ(reads.range_entry(7, 9).first.ToString(), number(16));
    ASSERT_TRUE(transaction->batch().Put(number(kKeys + 1), number(1)).ok());
    ASSERT_TRUE(store_->Put(WriteOptions(), number(changed ? 308 : 309), "other").ok());
    EXPECT_EQ(transaction->Close(WriteOptions()).ok(), !changed);
  }
}

}  // namespace breccia
