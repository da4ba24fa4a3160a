#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

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
  void open(std::uint32_t device_requests_min = 0) {
    Options options = testing::small_options();
    options.device_requests_min = device_requests_min;
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

/// A transaction that has read numbers, 0 for a key that is not there, and may write others.
class Numbers {
 public:
  Numbers(Store* store, const std::vector<std::string>& keys)
      : transaction_(store->OpenTransaction()) {
    for (const std::string& key : keys) EXPECT_TRUE(reads_.Get(key).ok());
    EXPECT_TRUE(transaction_->Read(&reads_).ok());
  }
  [[nodiscard]] int at(std::size_t i) const {
    return reads_.code(i) == Status::Code::kOk ? std::stoi(reads_.value(i).ToString()) : 0;
  }
  void put(const std::string& key, int number) {
    EXPECT_TRUE(transaction_->batch().Put(key, std::to_string(number)).ok());
  }
  /// False: what was read has changed, nothing was done.
  bool close() {
    const Status status = transaction_->Close(WriteOptions());
    EXPECT_TRUE(status.ok() || status.IsBusy()) << status.ToString();
    return status.ok();
  }

 private:
  Batch reads_;  // lives longer than the transaction
  const std::unique_ptr<Transaction> transaction_;
};

/// Lets others run between what a transaction has read and what it does about it.
void let_others_run(base::Random* random) {
  if (random->one_in(2)) std::this_thread::sleep_for(std::chrono::microseconds(random->below(100)));
}

/// Runs work(thread, random) in so many threads.
template <class Work>
void in_threads(int count, std::uint64_t seed, const Work& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back(
        [&work, t, random = base::Random(seed * 64 + t)]() mutable { work(t, &random); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Transactions of few requests go into the skip list, or become runs.
constexpr std::uint32_t kDeviceRequestsMin[] = {1'000'000, 1};

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
  const auto add_one = [&](std::uint64_t count, base::Random* random) {
    std::vector<std::string> keys;
    for (std::uint64_t i = 0; i < count; ++i) keys.push_back(key_of(i));
    Numbers numbers(store_.get(), keys);
    let_others_run(random);
    for (std::uint64_t i = 0; i < count; ++i) numbers.put(keys[i], numbers.at(i) + 1);
    return numbers.close();
  };
  in_threads(kThreads, seed, [&](int, base::Random* random) {
    for (int round = 0; round < kRounds; ++round) {
      const bool large = random->one_in(4);
      while (!add_one(large ? 200 : 2, random)) ++conflicts;
      if (random->one_in(16)) {
        EXPECT_TRUE(store_->Flush().ok());
      }
    }
  });
  EXPECT_EQ(get(key_of(0)), std::to_string(kThreads * kRounds));
  EXPECT_GT(conflicts, 0);
}

// Goal: no update is lost and nobody reads half a transfer, whatever is flushed meanwhile.
// Method: of 16 threads 12 transfer between 12 accounts, 3 sum up what one transaction reads, one
//         flushes; every sum is that of the start.
// Mutation: validating nothing, or not against what was flushed, loses money.
TEST_F(StoreTransactionTest, ConcurrentTransfersKeepTheSum) {
  constexpr int kMovers = 12;
  constexpr int kThreads = 16;
  constexpr int kStart = 100;
  const std::uint64_t seed = testing::seeds_to_run(1).front();
  SCOPED_TRACE(testing::replay_command(seed));
  std::vector<std::string> accounts;
  for (std::uint64_t i = 0; i < 12; ++i) accounts.push_back(key_of(i));
  const auto sum = [&] {
    const Numbers numbers(store_.get(), accounts);
    int total = 0;
    for (std::size_t i = 0; i < accounts.size(); ++i) total += numbers.at(i);
    return total;
  };
  const int expected = kStart * static_cast<int>(accounts.size());
  for (const std::uint32_t device_requests_min : kDeviceRequestsMin) {
    open(device_requests_min);
    for (const std::string& account : accounts) {
      ASSERT_TRUE(store_->Put(WriteOptions(), account, std::to_string(kStart)).ok());
    }
    std::atomic<int> done{0};
    std::atomic<int> committed{0};
    std::atomic<int> wrong{0};
    in_threads(kThreads, seed, [&](int t, base::Random* random) {
      for (int i = 0; t < kMovers && i < 150; ++i) {
        const std::string& from = accounts[random->below(6)];
        const std::string& to = accounts[6 + random->below(6)];
        Numbers numbers(store_.get(), {from, to});
        let_others_run(random);
        const int amount = static_cast<int>(random->below(20));
        numbers.put(from, numbers.at(0) - amount);
        numbers.put(to, numbers.at(1) + amount);
        committed += numbers.close() ? 1 : 0;
      }
      if (t < kMovers) ++done;
      while (t == kThreads - 1 && done < kMovers) EXPECT_TRUE(store_->Flush().ok());
      while (t >= kMovers && done < kMovers) wrong += sum() == expected ? 0 : 1;
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(sum(), expected);
    EXPECT_GT(committed, kMovers);
  }
}

// Goal: no pair is overdrawn, whoever withdraws from which half: there is no write skew.
// Method: 16 threads withdraw from three pairs until nothing is left; each reads both halves and
//         writes one. One flushes at times.
// Mutation: validating nothing, or before the turn to commit is taken, overdraws.
TEST_F(StoreTransactionTest, ConcurrentWithdrawalsKeepTheRule) {
  constexpr int kHalf = 20;
  const std::uint64_t seed = testing::seeds_to_run(1).front();
  SCOPED_TRACE(testing::replay_command(seed));
  for (const std::uint32_t device_requests_min : kDeviceRequestsMin) {
    open(device_requests_min);
    for (std::uint64_t i = 0; i < 6; ++i) {
      ASSERT_TRUE(store_->Put(WriteOptions(), key_of(i), std::to_string(kHalf)).ok());
    }
    std::array<std::atomic<int>, 3> withdrawn{};
    in_threads(16, seed, [&](int t, base::Random* random) {
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t pair = random->below(3);
        Numbers numbers(store_.get(), {key_of(2 * pair), key_of(2 * pair + 1)});
        let_others_run(random);
        const std::uint64_t half = random->below(2);
        if (numbers.at(0) + numbers.at(1) > 0) {
          numbers.put(key_of(2 * pair + half), numbers.at(half) - 1);
          withdrawn[pair] += numbers.close() ? 1 : 0;
        }
        if (t == 0 && i % 20 == 0) {
          EXPECT_TRUE(store_->Flush().ok());
        }
      }
    });
    for (std::uint64_t pair = 0; pair < 3; ++pair) {
      EXPECT_EQ(withdrawn[pair], 2 * kHalf) << pair;
      EXPECT_EQ(std::stoi(get(key_of(2 * pair))) + std::stoi(get(key_of(2 * pair + 1))), 0) << pair;
    }
  }
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
