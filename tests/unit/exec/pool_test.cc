#include "exec/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "exec/host/host_memory.h"
#include "support/seeds.h"

namespace breccia::exec {

namespace {

constexpr std::uint64_t kNoBudget = ~std::uint64_t{0} / 2;
constexpr std::uint64_t kMiB = 1 << 20;

/// A pool that counts what it takes from the system and gives back.
/// Threads any.
class CountingPool : public Pool {
 public:
  using Pool::Pool;
  ~CountingPool() override { drop_kept(); }

  /// What the system has in all.
  void set_system_bytes(std::uint64_t bytes) { system_bytes_ = bytes; }
  /// The next call gets nothing.
  void refuse_once() { refuses_ = true; }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  [[nodiscard]] int taken() const { return taken_; }
  [[nodiscard]] const std::vector<void*>& given_back() const { return given_back_; }

 protected:
  void* raw_allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(refuses_, false) || held_ + bytes > system_bytes_) return nullptr;
    ++taken_;
    held_ += bytes;
    return std::malloc(bytes);
  }
  void raw_release(void* memory, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    held_ -= bytes;
    given_back_.push_back(memory);
    std::free(memory);
  }

 private:
  std::mutex mutex_;
  std::uint64_t held_ = 0;
  std::uint64_t system_bytes_ = kNoBudget;
  bool refuses_ = false;
  int taken_ = 0;
  std::vector<void*> given_back_;
};

/// A pool whose system lets callers wait that want a large block, and has none for them.
class WaitingPool : public Pool {
 public:
  using Pool::Pool;
  ~WaitingPool() override { drop_kept(); }

  void await_waiter() { waiting_.acquire(); }
  void go_on() { go_.release(2); }  // a call asks again when kept blocks have gone back

 protected:
  void* raw_allocate(std::size_t bytes) override {
    if (bytes < kMiB) return std::malloc(bytes);
    waiting_.release();
    go_.acquire();
    return nullptr;
  }
  void raw_release(void* memory, std::size_t) override { std::free(memory); }

 private:
  std::counting_semaphore<> waiting_{0};
  std::counting_semaphore<> go_{0};
};

}  // namespace

// Goal: what is kept never exceeds the floor or what is in use, and blocks go back only for that.
// Method: random sizes come and go; after each call the books are compared with the system's.
// Mutation: asking only about the block just released keeps too much when much is released.
TEST(Pool, KeepsNoMoreThanIsInUse) {
  constexpr std::uint64_t kFloor = 64 << 10;
  for (const std::uint64_t seed : testing::seeds_to_run(50)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    KeptAllowance allowance(kFloor, kNoBudget);
    CountingPool pool(kNoBudget, &allowance, 1);
    std::multimap<std::size_t, void*> in_use;
    for (int step = 0; step < 400; ++step) {
      const bool rises = step / 100 % 2 == 0;  // twice
      if (in_use.empty() || random.one_in(4) != rises) {
        const std::size_t bytes = 1 + random.below(20'000);
        in_use.emplace(bytes, pool.allocate(bytes));
      } else {
        const auto some = in_use.lower_bound(random.below(20'000));
        const auto one = some == in_use.end() ? in_use.begin() : some;
        pool.release(one->second, one->first);
        in_use.erase(one);
      }
      ASSERT_EQ(pool.held(), pool.used() + pool.kept());
      ASSERT_LE(pool.kept(), std::max(kFloor, pool.used()));
    }
    for (const auto& [bytes, memory] : in_use) pool.release(memory, bytes);
    EXPECT_LE(pool.held(), kFloor);
  }
}

// Goal: a size that was released a moment ago is found again, and what waited longest goes first.
// Method: a floor of two blocks, three released; then the same sizes again.
// Mutation: giving back the block just released, or the largest, costs every later call the system.
TEST(Pool, KeepsWhatWasReleasedLast) {
  KeptAllowance allowance(2 * kMiB, kNoBudget);
  CountingPool pool(kNoBudget, &allowance, 1);
  void* const oldest = pool.allocate(kMiB);
  void* const other = pool.allocate(kMiB / 2);
  void* const newest = pool.allocate(kMiB);
  pool.release(oldest, kMiB);
  pool.release(other, kMiB / 2);
  EXPECT_TRUE(pool.given_back().empty());
  pool.release(newest, kMiB);
  EXPECT_EQ(pool.given_back(), std::vector<void*>{oldest});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(pool.allocate(kMiB), newest);
    EXPECT_EQ(pool.allocate(kMiB / 2), other);
    pool.release(newest, kMiB);
    pool.release(other, kMiB / 2);
  }
  EXPECT_EQ(pool.taken(), 3);
  EXPECT_EQ(pool.given_back().size(), 1U);
}

// Goal: a block larger than all that may be kept goes back at once and takes nothing along.
// Method: a small block kept, a large one released.
// Mutation: dropping the oldest first and the large one last empties the pool.
TEST(Pool, LargeBlocksTakeNothingAlong) {
  KeptAllowance allowance(kMiB, kNoBudget);
  CountingPool pool(kNoBudget, &allowance, 1);
  void* const small = pool.allocate(1000);
  void* const large = pool.allocate(8 * kMiB);
  pool.release(small, 1000);
  pool.release(large, 8 * kMiB);
  EXPECT_EQ(pool.given_back(), std::vector<void*>{large});
  EXPECT_EQ(pool.allocate(1000), small);
  pool.release(small, 1000);
}

// Goal: who finds a block among those that are kept does not wait for the system, and who would be
//   over the budget waits until it is known whether others get what they have asked for.
// Method: one thread asks for what is left of the budget, which the system refuses when told to;
//   others take a kept block, and one more, meanwhile.
// Mutation: asking the system under the lock never ends; counting what was only asked for finds no
//   room for the other block.
TEST(Pool, ConcurrentCallersDoNotStandInEachOthersWay) {
  WaitingPool pool(3 * kMiB + 1024);
  void* const small = pool.allocate(1000);
  pool.release(small, 1000);
  std::thread large([&pool] { EXPECT_EQ(pool.allocate(3 * kMiB), nullptr); });
  pool.await_waiter();
  EXPECT_EQ(pool.allocate(1000), small);
  std::thread other([&pool] {
    void* const memory = pool.allocate(5000);
    EXPECT_NE(memory, nullptr);
    if (memory != nullptr) pool.release(memory, 5000);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it asks before
  pool.go_on();
  large.join();
  other.join();
  pool.release(small, 1000);
  EXPECT_EQ(pool.used(), 0U);
}

// Goal: the books are right whoever calls, also where the system has nothing left.
// Method: threads take and release blocks of random sizes, of a system that has less than one of
//   them wants, and look whether somebody else wrote into theirs.
// Mutation: a call that takes a kept block after the system refused, and leaves what it had
//   counted, shows in what is kept at the end.
TEST(Pool, ConcurrentCallersKeepTheBooks) {
  constexpr std::uint64_t kThreads = 4;
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    KeptAllowance allowance(16 << 10, kNoBudget);
    CountingPool pool(kMiB, &allowance, 1);
    pool.set_system_bytes(64 << 10);
    std::atomic<int> refused{0};
    const auto call = [&](std::uint64_t number) {
      base::Random random(seed * kThreads + number);
      std::vector<std::pair<std::uint64_t*, std::size_t>> mine;
      for (int step = 0; step < 500; ++step) {
        if (mine.size() < 16 && !random.one_in(3)) {
          const std::size_t bytes = 8 + random.below(12'000);
          auto* const memory = static_cast<std::uint64_t*>(pool.allocate(bytes));
          refused += memory == nullptr ? 1 : 0;
          if (memory == nullptr) continue;
          *memory = number;
          mine.emplace_back(memory, bytes);
        } else if (!mine.empty()) {
          std::swap(mine[random.below(mine.size())], mine.back());
          EXPECT_EQ(*mine.back().first, number);
          pool.release(mine.back().first, mine.back().second);
          mine.pop_back();
        }
      }
      for (const auto& [memory, bytes] : mine) pool.release(memory, bytes);
    };
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(call, i);
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(refused.load(), 0);
    EXPECT_EQ(pool.used(), 0U);
    EXPECT_EQ(pool.kept(), pool.held());
  }
}

// Goal: where the system has nothing left, what is kept goes back, and then the call fails or not;
//   one that fails leaves the books as they were.
// Method: a system of 3 MiB, 2 of them kept.
// Mutation: leaving out either subtraction shows in used() or kept().
TEST(Pool, KeptBlocksGoBackWhereTheSystemHasNoMore) {
  CountingPool pool(kNoBudget);
  pool.set_system_bytes(3 * kMiB);
  void* const one = pool.allocate(kMiB);
  void* const other = pool.allocate(kMiB);
  pool.release(one, kMiB);
  pool.release(other, kMiB);
  void* const large = pool.allocate(3 * kMiB);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(pool.given_back().size(), 2U);
  EXPECT_EQ(pool.allocate(kMiB), nullptr);
  EXPECT_EQ(pool.used(), 3 * kMiB);
  EXPECT_EQ(pool.kept(), 0U);
  pool.release(large, 3 * kMiB);
}

// Goal: a pool with a budget keeps all of it.
// Method: blocks of the whole budget come and go.
// Mutation: the floor of host memory for every pool gives device memory back.
TEST(Pool, BudgetAloneBoundsDeviceMemory) {
  CountingPool pool(4 * kMiB);
  std::vector<void*> blocks(4);
  for (void*& block : blocks) block = pool.allocate(kMiB);
  EXPECT_EQ(pool.allocate(kMiB), nullptr);
  for (void* block : blocks) pool.release(block, kMiB);
  EXPECT_EQ(pool.kept(), 4 * kMiB);
  EXPECT_TRUE(pool.given_back().empty());
}

// Goal: what an idle pool keeps goes back for what a busy one keeps, and for what it cannot get
//   otherwise.
// Method: one pool fills an allowance of 4 MiB and rests; another comes; the system refuses once.
// Mutation: an allowance for each pool keeps 8 MiB; who gives back its own alone leaves the
// other's.
TEST(Pool, AnIdlePoolMakesRoomForABusyOne) {
  KeptAllowance allowance(4 * kMiB, 4 * kMiB);
  CountingPool idle(kNoBudget, &allowance, 1);
  CountingPool busy(kNoBudget, &allowance, 1);
  const auto use = [](CountingPool* pool) {
    std::vector<void*> blocks(4);
    for (void*& block : blocks) block = pool->allocate(kMiB);
    for (void* const block : blocks) pool->release(block, kMiB);
  };
  use(&idle);
  EXPECT_EQ(idle.kept(), 4 * kMiB);
  use(&busy);
  EXPECT_EQ(allowance.kept(), 4 * kMiB);
  EXPECT_EQ(idle.kept(), 0U);
  EXPECT_EQ(busy.kept(), 4 * kMiB);
  use(&idle);
  EXPECT_EQ(idle.kept(), 4 * kMiB);
  busy.refuse_once();
  void* const block = busy.allocate(2 * kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(idle.kept(), 0U);
  busy.release(block, 2 * kMiB);
}

// Goal: who waits for its turn is not overtaken by those that come later and want little.
// Method: a call waits, since another has asked for what it needs; a third comes, for which there
//   would be room. The order in which the system is asked tells.
// Mutation: serving whoever fits lets the third ask first, and any number behind it.
TEST(Pool, ConcurrentCallersAreServedInOrder) {
  WaitingPool pool(4 * kMiB);
  std::thread first([&pool] { EXPECT_EQ(pool.allocate(3 * kMiB), nullptr); });
  pool.await_waiter();
  std::thread second([&pool] {
    void* const memory = pool.allocate(2 * kMiB);
    EXPECT_EQ(memory, nullptr);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::thread third([&pool] {
    void* const memory = pool.allocate(5000);
    EXPECT_NE(memory, nullptr);
    if (memory != nullptr) pool.release(memory, 5000);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(pool.used(), 3 * kMiB);  // the third has taken nothing
  pool.go_on();
  pool.go_on();
  first.join();
  second.join();
  third.join();
  EXPECT_EQ(pool.used(), 0U);
}

// Goal: host memory that nobody uses does not stay with the process for ever.
// Method: untouched blocks of three times what may be kept are released.
// Mutation: a host pool without the floor keeps all.
TEST(Pool, HostMemoryGoesBack) {
  host::HostPool pool(kNoBudget);
  std::vector<void*> blocks(12);
  const std::uint64_t may_keep = host_allowance().floor();
  const std::uint64_t quarter = may_keep / 4;
  for (void*& block : blocks) block = pool.allocate(quarter);
  for (void* block : blocks) pool.release(block, quarter);
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_LE(host_allowance().kept(), may_keep);
  EXPECT_GT(pool.kept(), may_keep / 2);
}

}  // namespace breccia::exec
