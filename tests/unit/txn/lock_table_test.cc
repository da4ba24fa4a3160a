#include "txn/lock_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "support/seeds.h"

namespace breccia::txn {

namespace {

constexpr FamilyId kFamily = 3;

Locker locker(OwnerId id, std::int64_t wait_us_max = 0) {
  Locker one;
  one.id = id;
  one.wait_us_max = wait_us_max;
  return one;
}

}  // namespace

// Goal: locks exclude each other: one writer, or readers; nobody waits for ever.
// Method: eight threads lock two of five keys in any order, shared or not, with deadlock detection;
//         each key has a count of readers and writers that must never be wrong.
// Mutation: granting before the holders are looked at, or a notification before the release.
TEST(LockTable, ConcurrentLocksExclude) {
  const std::uint64_t seed = testing::seeds_to_run(1).front();
  SCOPED_TRACE(testing::replay_command(seed));
  LockTable table({.stripes = 2});
  constexpr int kKeys = 5;
  std::atomic<int> writers[kKeys] = {};
  std::atomic<int> readers[kKeys] = {};
  std::atomic<int> taken{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (OwnerId t = 1; t <= 8; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(seed * 64 + t);
      Locker self = locker(t, 5'000'000);
      self.detects_deadlock = true;
      for (int i = 0; i < 400; ++i) {
        TrackedKeys held;
        const auto take = [&](std::uint64_t k, bool exclusive) {
          const std::string key = std::to_string(k);
          if (!table.lock(self, kFamily, key, exclusive).ok()) return false;
          held.track(kFamily, key, 0, /*read_only=*/!exclusive, exclusive);
          return true;
        };
        const std::uint64_t first = random.below(kKeys);
        const std::uint64_t second = (first + 1 + random.below(kKeys - 1)) % kKeys;
        const bool writes = random.one_in(2);
        if (take(first, writes) && take(second, /*exclusive=*/true)) {
          ++taken;
          wrong += writers[second]++ != 0 || readers[second] != 0 ? 1 : 0;
          if (writes) {
            wrong += writers[first]++ != 0 || readers[first] != 0 ? 1 : 0;
            std::this_thread::yield();
            --writers[first];
          } else {
            ++readers[first];
            wrong += writers[first] != 0 ? 1 : 0;
            --readers[first];
          }
          --writers[second];
        }
        table.unlock(t, held);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(taken, 800);
  EXPECT_TRUE(table.held().empty());
}

// Goal: modes, upgrades and the limit per family; what is held is what was granted.
// Method: each, by hand.
// Mutation: an upgrade beside another holder that is granted.
TEST(LockTable, Modes) {
  LockTable table({.stripes = 4, .locks_max = 2});
  EXPECT_TRUE(table.lock(locker(1), kFamily, "a", false).ok());
  EXPECT_TRUE(table.lock(locker(2), kFamily, "a", false).ok());
  EXPECT_EQ(table.lock(locker(1), kFamily, "a", true).subcode(), Status::SubCode::kLockTimeout);
  table.unlock(2, kFamily, "a");
  EXPECT_TRUE(table.lock(locker(1), kFamily, "a", true).ok());
  EXPECT_TRUE(table.lock(locker(2), kFamily, "a", false).IsTimedOut());
  EXPECT_TRUE(table.lock(locker(1), kFamily, "a", false).ok()) << "back to shared";
  EXPECT_TRUE(table.lock(locker(2), kFamily, "a", false).ok());
  EXPECT_TRUE(table.lock(locker(1), kFamily, "b", true).ok());
  EXPECT_EQ(table.lock(locker(1), kFamily, "c", true).subcode(), Status::SubCode::kLockLimit);
  EXPECT_TRUE(table.lock(locker(1), kFamily + 1, "c", true).ok());
  const auto held = table.held();
  EXPECT_EQ(held.size(), 3U);
  EXPECT_EQ(held.find(kFamily + 1)->second.ids, std::vector<rocksdb::TransactionID>{1});
}

// Goal: an expired lock is taken from an owner that agrees, and from no other.
// Method: owners that agree, refuse, and are not there any more.
// Mutation: not asking the owner.
TEST(LockTable, Expiration) {
  LockTable table({});
  Locker old = locker(1);
  old.expires_us = base::now_us();
  bool agrees = false;
  table.may_expire(1, [&] { return agrees; });
  EXPECT_TRUE(table.lock(old, kFamily, "a", true).ok());
  EXPECT_TRUE(table.lock(locker(2), kFamily, "a", true).IsTimedOut());
  agrees = true;
  EXPECT_TRUE(table.lock(locker(2), kFamily, "a", true).ok());
  table.unlock(1, kFamily, "a");
  EXPECT_EQ(table.held().begin()->second.ids, std::vector<rocksdb::TransactionID>{2});
  EXPECT_TRUE(table.lock(old, kFamily, "b", true).ok());
  agrees = false;
  table.forget(1);
  EXPECT_TRUE(table.lock(locker(2, 1000), kFamily, "b", true).ok());
}

// Goal: two that upgrade the same shared lock wait for each other, which is a deadlock; one alone
//       that waits for another reader is not.
// Method: one upgrade with detection while the other only reads, then both.
// Mutation: counting a waiter among those that it waits for.
TEST(LockTable, ConcurrentUpgrades) {
  LockTable table({});
  Locker a = locker(1, 30'000'000);
  Locker b = locker(2, 30'000'000);
  a.detects_deadlock = b.detects_deadlock = true;
  ASSERT_TRUE(table.lock(a, kFamily, "k", false).ok());
  ASSERT_TRUE(table.lock(b, kFamily, "k", false).ok());
  std::thread first([&] { EXPECT_TRUE(table.lock(a, kFamily, "k", true).ok()); });
  while (table.waiting(1).holders.empty()) std::this_thread::yield();
  EXPECT_EQ(table.waiting(1).holders, std::vector<OwnerId>{2});
  EXPECT_EQ(table.lock(b, kFamily, "k", true).subcode(), Status::SubCode::kDeadlock);
  ASSERT_EQ(table.cycles().size(), 1U);
  table.unlock(2, kFamily, "k");
  first.join();
}

}  // namespace breccia::txn
