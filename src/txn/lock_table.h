#pragma once

#include <breccia/family.h>
#include <breccia/status.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/utilities/transaction_db_mutex.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "txn/tracked_keys.h"
#include "txn/wait_graph.h"

namespace breccia::txn {

struct LockTableOptions {
  std::size_t stripes = 16;      // per family
  std::int64_t locks_max = -1;   // per family; not above 0: no limit
  std::uint32_t cycles_max = 5;  // that are remembered
  /// Null: ours, on std::mutex.
  std::shared_ptr<rocksdb::TransactionDBMutexFactory> mutexes = nullptr;
};

/// Who wants locks, and how. Times in microseconds.
struct Locker {
  OwnerId id = 0;
  std::int64_t wait_us_max = 0;  // 0: not at all; below: as long as it takes
  std::uint64_t expires_us = 0;  // of base::now_us(): others may take its locks then; 0: never
  bool detects_deadlock = false;
  std::uint64_t owners_max = 50;  // that the search for a cycle looks at
};

/// Locks on keys, exclusive or shared, by family. Waiters are served in no order.
///
/// Threads any number; a locker is used by one at a time.
class LockTable {
 public:
  explicit LockTable(const LockTableOptions& options);

  /// Takes the lock, or makes it exclusive or shared if the locker has it.
  /// Bound   waits for `wait_us_max` while others hold it.
  /// Errors  TimedOut/kLockTimeout: others held it for that long; TimedOut/kMutexTimeout: it did
  ///         not wait, and the table was busy; Busy/kDeadlock: the wait would never have ended;
  ///         Busy/kLockLimit: `locks_max`. What a user's mutexes return.
  Status lock(const Locker& locker, FamilyId family, const std::string& key, bool exclusive);

  /// Gives locks back. Those that others took after they had expired stay theirs.
  void unlock(OwnerId owner, FamilyId family, const std::string& key);
  void unlock(OwnerId owner, const TrackedKeys& keys);

  /// `steal` is asked when somebody wants locks of this owner that have expired: true if the owner
  /// can do without them from then on. Until forget(), which waits for a call under way.
  void may_expire(OwnerId owner, std::function<bool()> steal);
  void forget(OwnerId owner);

  /// For whom `owner` waits, and for which key; empty if for nobody.
  struct Waiting {
    std::vector<OwnerId> holders;
    FamilyId family = 0;
    std::string key;
    bool exclusive = false;
  };
  [[nodiscard]] Waiting waiting(OwnerId owner) const;

  /// All locks that are held, by family.
  [[nodiscard]] std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> held() const;
  /// The last cycles that were refused, newest first.
  [[nodiscard]] std::vector<rocksdb::DeadlockPath> cycles() const;
  void set_cycles_max(std::uint32_t cycles_max);

 private:
  struct Lock {
    std::vector<OwnerId> holders;
    bool exclusive = false;
    std::uint64_t expires_us = 0;
  };
  struct Stripe {
    std::shared_ptr<rocksdb::TransactionDBMutex> mutex;
    std::shared_ptr<rocksdb::TransactionDBCondVar> changed;
    std::unordered_map<std::string, Lock> locks;
  };
  struct Family {
    std::vector<Stripe> stripes;
    std::atomic<std::int64_t> locks{0};

    [[nodiscard]] Stripe& stripe_of(const std::string& key);
  };
  /// Why a lock was not granted: who holds it, and when that ends by itself.
  struct Refused {
    std::vector<OwnerId> holders;
    std::uint64_t expires_us = 0;
  };

  /// Notes at its end that the owner waits no more.
  class EndWait {
   public:
    EndWait(LockTable* table, OwnerId owner) : table_(table), owner_(owner) {}
    ~EndWait();
    EndWait(const EndWait&) = delete;
    EndWait& operator=(const EndWait&) = delete;

   private:
    LockTable* const table_;
    const OwnerId owner_;
  };

  [[nodiscard]] Family& family_of(FamilyId id);
  Status grant(const Locker& locker, Family* family, Stripe* stripe, const std::string& key,
               bool exclusive, Refused* refused);
  [[nodiscard]] bool take_expired(OwnerId taker, const Lock& lock);
  Status wait(const Locker& locker, Stripe* stripe, const Waiting& what, std::uint64_t until_us);
  Status begin_wait(const Locker& locker, const Waiting& what);
  void remember(const WaitGraph::Cycle& cycle);
  static void release(OwnerId owner, Family* family, Stripe* stripe, const std::string& key);

  const LockTableOptions options_;
  mutable std::shared_mutex families_mutex_;
  std::map<FamilyId, std::unique_ptr<Family>> families_;

  mutable std::mutex waits_mutex_;  // below every stripe's
  WaitGraph graph_;                 // of those that detect deadlocks
  std::unordered_map<OwnerId, Waiting> waiting_;
  std::deque<rocksdb::DeadlockPath> cycles_;
  std::uint32_t cycles_max_;

  std::mutex expiring_mutex_;  // below every stripe's
  std::unordered_map<OwnerId, std::function<bool()>> expiring_;
};

}  // namespace breccia::txn
