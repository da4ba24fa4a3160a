#include "txn/lock_table.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <map>
#include <new>
#include <vector>

#include "base/clock.h"
#include "base/memory.h"
#include "base/result.h"

/// Locks on keys, in stripes by hash: a mutex, a condition variable and a map of held locks each.
/// Who has to wait enters the graph of waiters first, which refuses what would close a circle
/// (deadlock); a lock that has expired is taken over. Mutexes are the user's, if a factory is
/// given.

namespace breccia::txn {

namespace {

class Mutex final : public rocksdb::TransactionDBMutex {
 public:
  Status Lock() override {
    mutex_.lock();
    return Status::OK();
  }
  // It is held for moments only, so whoever may wait at all waits for it.
  Status TryLockFor(std::int64_t wait_us_max) override {
    if (wait_us_max != 0) return Lock();
    return mutex_.try_lock() ? Status::OK() : Status::TimedOut(Status::SubCode::kMutexTimeout);
  }
  void UnLock() override { mutex_.unlock(); }

  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
};

class CondVar final : public rocksdb::TransactionDBCondVar {
 public:
  Status Wait(std::shared_ptr<rocksdb::TransactionDBMutex> mutex) override {
    std::unique_lock lock(static_cast<Mutex&>(*mutex).mutex(), std::adopt_lock);
    changed_.wait(lock);
    lock.release();
    return Status::OK();
  }
  Status WaitFor(std::shared_ptr<rocksdb::TransactionDBMutex> mutex,
                 std::int64_t wait_us_max) override {
    std::unique_lock lock(static_cast<Mutex&>(*mutex).mutex(), std::adopt_lock);
    const auto result = changed_.wait_until(
        lock,
        base::deadline_after(static_cast<std::uint64_t>(std::max<std::int64_t>(wait_us_max, 0))));
    lock.release();
    return result == std::cv_status::timeout ? Status::TimedOut(Status::SubCode::kMutexTimeout)
                                             : Status::OK();
  }
  void Notify() override { changed_.notify_one(); }
  void NotifyAll() override { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

class Mutexes final : public rocksdb::TransactionDBMutexFactory {
 public:
  std::shared_ptr<rocksdb::TransactionDBMutex> AllocateMutex() override {
    return std::make_shared<Mutex>();
  }
  std::shared_ptr<rocksdb::TransactionDBCondVar> AllocateCondVar() override {
    return std::make_shared<CondVar>();
  }
};

LockTableOptions with_mutexes(LockTableOptions options) {
  if (options.mutexes == nullptr) options.mutexes = std::make_shared<Mutexes>();
  options.stripes = std::max<std::size_t>(options.stripes, 1);
  return options;
}

/// Gives a stripe's mutex back.
class Unlock {
 public:
  explicit Unlock(rocksdb::TransactionDBMutex* mutex) : mutex_(mutex) {}
  ~Unlock() { mutex_->UnLock(); }
  Unlock(const Unlock&) = delete;
  Unlock& operator=(const Unlock&) = delete;

 private:
  rocksdb::TransactionDBMutex* const mutex_;
};

bool holds(const std::vector<OwnerId>& holders, OwnerId owner) {
  return std::find(holders.begin(), holders.end(), owner) != holders.end();
}

}  // namespace

LockTable::LockTable(const LockTableOptions& options)
    : options_(with_mutexes(options)), cycles_max_(options.cycles_max) {}

LockTable::Stripe& LockTable::Family::stripe_of(const std::string& key) {
  return stripes[std::hash<std::string>()(key) % stripes.size()];
}

LockTable::Family& LockTable::family_of(FamilyId id) {
  {
    const std::shared_lock lock(families_mutex_);
    const auto at = families_.find(id);
    if (at != families_.end()) return *at->second;
  }
  const std::unique_lock lock(families_mutex_);
  const auto at = families_.find(id);
  if (at != families_.end()) return *at->second;
  // Whole before anybody finds it: making one may find no memory.
  auto family = std::make_unique<Family>();
  family->stripes.resize(options_.stripes);
  for (Stripe& stripe : family->stripes) {
    stripe.mutex = options_.mutexes->AllocateMutex();
    stripe.changed = options_.mutexes->AllocateCondVar();
  }
  return *families_.emplace(id, std::move(family)).first->second;
}

// ---- taking locks ------------------------------------------------------------------------------

Status LockTable::lock(const Locker& locker, FamilyId id, const std::string& key, bool exclusive) {
  Family& family = family_of(id);
  Stripe& stripe = family.stripe_of(key);
  const std::uint64_t until_us =
      locker.wait_us_max > 0 ? base::now_us() + static_cast<std::uint64_t>(locker.wait_us_max) : 0;
  BRECCIA_TRY(locker.wait_us_max < 0 ? stripe.mutex->Lock()
                                     : stripe.mutex->TryLockFor(locker.wait_us_max));
  const Unlock unlock(stripe.mutex.get());
  Refused refused;
  Status status = grant(locker, &family, &stripe, key, exclusive, &refused);
  if (locker.wait_us_max == 0) return status;
  bool over = false;
  while (status.IsTimedOut() && !over) {
    const Waiting what{refused.holders, id, key, exclusive};
    // Until the deadline, or until the locks of who holds it expire.
    std::uint64_t wake_us = until_us;
    if (refused.expires_us > 0 && (wake_us == 0 || refused.expires_us < wake_us)) {
      wake_us = refused.expires_us;
    }
    const Status waited = wait(locker, &stripe, what, wake_us);
    if (!waited.ok() && !waited.IsTimedOut()) return waited;
    // After the last wait once more: locks expire without telling anybody.
    over = until_us != 0 && base::now_us() >= until_us;
    refused = {};
    status = grant(locker, &family, &stripe, key, exclusive, &refused);
  }
  return status;
}

/// Under the stripe's mutex. Errors  TimedOut: `refused` says why; Busy/kLockLimit.
Status LockTable::grant(const Locker& locker, Family* family, Stripe* stripe,
                        const std::string& key, bool exclusive, Refused* refused) {
  const auto at = stripe->locks.find(key);
  if (at == stripe->locks.end()) {
    if (options_.locks_max > 0 && family->locks.load() >= options_.locks_max) {
      return Status::Busy(Status::SubCode::kLockLimit);
    }
    stripe->locks.emplace(key, Lock{{locker.id}, exclusive, locker.expires_us});
    ++family->locks;
    return Status::OK();
  }
  Lock& lock = at->second;
  const bool is_ours = holds(lock.holders, locker.id);
  if (!lock.exclusive && !exclusive) {
    if (!is_ours) lock.holders.push_back(locker.id);
    // With several holders it expires when the last of them does; 0 is never.
    const bool never = lock.expires_us == 0 || locker.expires_us == 0;
    lock.expires_us = never ? 0 : std::max(lock.expires_us, locker.expires_us);
    return Status::OK();
  }
  const bool is_ours_alone = is_ours && lock.holders.size() == 1;
  if (is_ours_alone || take_expired(locker.id, lock)) {
    lock = Lock{{locker.id}, exclusive, locker.expires_us};
    return Status::OK();
  }
  refused->holders = lock.holders;
  std::erase(refused->holders, locker.id);
  refused->expires_us = lock.expires_us > base::now_us() ? lock.expires_us : 0;
  return Status::TimedOut(Status::SubCode::kLockTimeout);
}

/// True if the lock has expired and everybody who holds it can do without it.
bool LockTable::take_expired(OwnerId taker, const Lock& lock) {
  if (lock.expires_us == 0 || lock.expires_us > base::now_us()) return false;
  const std::lock_guard guard(expiring_mutex_);
  return std::all_of(lock.holders.begin(), lock.holders.end(), [&](OwnerId holder) {
    const auto at = expiring_.find(holder);
    return holder == taker || at == expiring_.end() || at->second();
  });
}

/// Waits once, under the stripe's mutex, at most until `until_us`; 0: as long as it takes.
Status LockTable::wait(const Locker& locker, Stripe* stripe, const Waiting& what,
                       std::uint64_t until_us) {
  const EndWait end(this, locker.id);  // also where it does not begin
  BRECCIA_TRY(begin_wait(locker, what));
  if (until_us == 0) return stripe->changed->Wait(stripe->mutex);
  const std::uint64_t now = base::now_us();
  if (until_us <= now) return Status::OK();
  return stripe->changed->WaitFor(stripe->mutex, static_cast<std::int64_t>(until_us - now));
}

LockTable::EndWait::~EndWait() {
  const std::lock_guard lock(table_->waits_mutex_);
  table_->waiting_.erase(owner_);
  table_->graph_.stop(owner_);
}

/// Errors  Busy/kDeadlock: it would wait for itself.
Status LockTable::begin_wait(const Locker& locker, const Waiting& what) {
  const std::lock_guard lock(waits_mutex_);
  waiting_[locker.id] = what;
  if (!locker.detects_deadlock) return Status::OK();
  const auto cycle = graph_.wait(locker.id, what.holders, locker.owners_max);
  if (!cycle.has_value()) return Status::OK();
  base::as_memory_allows([&] { remember(*cycle); });
  return Status::Busy(Status::SubCode::kDeadlock);
}

void LockTable::remember(const WaitGraph::Cycle& cycle) {
  rocksdb::DeadlockPath path(std::time(nullptr), cycle.limit_exceeded);
  for (const OwnerId owner : cycle.owners) {
    const Waiting& waits = waiting_[owner];
    path.path.push_back({owner, waits.family, waits.exclusive, waits.key});
  }
  cycles_.push_front(std::move(path));
  if (cycles_.size() > cycles_max_) cycles_.resize(cycles_max_);
}

// ---- giving them back --------------------------------------------------------------------------

/// Under the stripe's mutex.
void LockTable::release(OwnerId owner, Family* family, Stripe* stripe, const std::string& key) {
  const auto at = stripe->locks.find(key);
  if (at == stripe->locks.end() || std::erase(at->second.holders, owner) == 0) return;
  if (!at->second.holders.empty()) return;
  stripe->locks.erase(at);
  --family->locks;
}

void LockTable::unlock(OwnerId owner, FamilyId id, const std::string& key) {
  Family& family = family_of(id);
  Stripe& stripe = family.stripe_of(key);
  if (!stripe.mutex->Lock().ok()) return;
  release(owner, &family, &stripe, key);
  stripe.mutex->UnLock();
  stripe.changed->NotifyAll();
}

void LockTable::unlock(OwnerId owner, const TrackedKeys& keys) {
  for (const auto& [id, of_family] : keys.families()) {
    Family& family = family_of(id);
    std::map<Stripe*, std::vector<const std::string*>> by_stripe;
    try {
      for (const auto& [key, how] : of_family) by_stripe[&family.stripe_of(key)].push_back(&key);
    } catch (const std::bad_alloc&) {
      by_stripe.clear();  // one by one, which needs no memory
      for (const auto& [key, how] : of_family) unlock(owner, id, key);
    }
    for (const auto& [stripe, of_stripe] : by_stripe) {
      if (!stripe->mutex->Lock().ok()) continue;
      for (const std::string* key : of_stripe) release(owner, &family, stripe, *key);
      stripe->mutex->UnLock();
      stripe->changed->NotifyAll();
    }
  }
}

void LockTable::may_expire(OwnerId owner, std::function<bool()> steal) {
  const std::lock_guard lock(expiring_mutex_);
  expiring_[owner] = std::move(steal);
}

void LockTable::forget(OwnerId owner) {
  const std::lock_guard lock(expiring_mutex_);
  expiring_.erase(owner);
}

// ---- figures -----------------------------------------------------------------------------------

LockTable::Waiting LockTable::waiting(OwnerId owner) const {
  const std::lock_guard lock(waits_mutex_);
  const auto at = waiting_.find(owner);
  return at == waiting_.end() ? Waiting() : at->second;
}

std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> LockTable::held() const {
  std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> all;
  const std::shared_lock lock(families_mutex_);
  for (const auto& [id, family] : families_) {
    for (const Stripe& stripe : family->stripes) {
      if (!stripe.mutex->Lock().ok()) continue;
      const Unlock unlock(stripe.mutex.get());
      for (const auto& [key, held] : stripe.locks) {
        all.insert({id, rocksdb::KeyLockInfo{key, held.holders, held.exclusive}});
      }
    }
  }
  return all;
}

std::vector<rocksdb::DeadlockPath> LockTable::cycles() const {
  const std::lock_guard lock(waits_mutex_);
  return {cycles_.begin(), cycles_.end()};
}

void LockTable::set_cycles_max(std::uint32_t cycles_max) {
  const std::lock_guard lock(waits_mutex_);
  cycles_max_ = cycles_max;
  if (cycles_.size() > cycles_max) cycles_.resize(cycles_max);
}

}  // namespace breccia::txn
