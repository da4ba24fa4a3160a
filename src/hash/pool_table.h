#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "base/section_mutex.h"
#include "exec/clear.h"
#include "exec/device.h"
#include "exec/in_flight.h"
#include "exec/pool.h"
#include "hash/backend.h"
#include "hash/rows.h"
#include "hash/section.h"

namespace breccia::hash {

/// Memory of a table that does not grow.
class Storage {
 public:
  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<Storage>> make(exec::Pool& pool, const Secret& secret,
                                               std::uint64_t bucket_count) {
    auto storage = std::unique_ptr<Storage>(new Storage(secret, bucket_count));
    BRECCIA_TAKE(storage->pairs_, exec::Array<Pair>::make(pool, storage->slot_count()));
    BRECCIA_TAKE(storage->bits_,
                 exec::Array<std::uint32_t>::make(pool, kMaps * storage->map_words()));
    return Result<std::unique_ptr<Storage>>(std::move(storage));
  }

  [[nodiscard]] std::uint64_t bucket_count() const { return bucket_count_; }
  [[nodiscard]] std::uint64_t slot_count() const { return (bucket_count_ + 1) * kBucketPairs; }
  [[nodiscard]] std::uint64_t bytes() const { return pairs_.bytes() + bits_.bytes(); }
  /// Words of a map of buckets.
  [[nodiscard]] std::uint64_t map_words() const { return bucket_count_ / 32 + 1; }
  [[nodiscard]] TableRef ref() const {
    return {.pairs = pairs_.data(),
            .was_full = bits_.data(),
            .has_deleted = bits_.data() + map_words(),
            .is_full = bits_.data() + 2 * map_words(),
            .bucket_count = bucket_count_,
            .secret = secret_};
  }
  template <class X>
  Status clear(X& x) {
    BRECCIA_TRY(exec::clear(x, pairs_.data(), pairs_.count()));
    return exec::clear(x, bits_.data(), bits_.count());
  }

  /// Called before keys of it are deleted, any number of batches at once.
  void note_deletions() { has_deletions_.store(true, std::memory_order_relaxed); }
  /// In a section: whether there may be slots of deleted keys, of which the caller takes care.
  [[nodiscard]] bool take_deletions() {
    const bool are_there = has_deletions_.exchange(false, std::memory_order_relaxed);
    if (are_there) ++sweeps_;
    return are_there;
  }
  /// How often slots of deleted keys became empty; changes in sections only.
  [[nodiscard]] std::uint64_t sweeps() const { return sweeps_; }

 private:
  static constexpr std::uint64_t kMaps = 3;

  Storage(const Secret& secret, std::uint64_t bucket_count)
      : secret_(secret), bucket_count_(bucket_count) {}

  const Secret secret_;
  const std::uint64_t bucket_count_;
  exec::Array<Pair> pairs_;
  exec::Array<std::uint32_t> bits_;
  std::atomic<bool> has_deletions_ = false;
  std::uint64_t sweeps_ = 0;
};

/// Knows of batches that write, and whether others were there between one and a section behind it.
/// Threads any.
class Visitors {
 public:
  class Visit {
   public:
    explicit Visit(Visitors& all) : all_(all) {
      const bool is_alone = all_.here_.fetch_add(1) == 0;
      const std::uint64_t number = all_.begun_.fetch_add(1) + 1;
      number_ = is_alone ? number : 0;
    }
    ~Visit() { all_.here_.fetch_sub(1); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    /// Of this one; 0: others are there.
    [[nodiscard]] std::uint64_t number() const { return number_; }

   private:
    Visitors& all_;
    std::uint64_t number_ = 0;
  };

  /// In a section: whether nobody was there beside or behind it. Those that wait for a section of
  /// theirs learn of this one.
  [[nodiscard]] bool enter_section(std::uint64_t number) { return number == begun_.fetch_add(1); }

 private:
  std::atomic<std::uint64_t> here_ = 0;
  std::atomic<std::uint64_t> begun_ = 0;
};

/// A table in the pool of a tenant, which it keeps alive. What it has changes in sections only.
class PoolTable final : public Table {
 public:
  /// `rows` may be null: values lie in the slots. `in_flight`: lookups of the tenant's, in this
  /// table or in another one.
  PoolTable(exec::TenantPtr tenant, const TableOptions& options, std::unique_ptr<Storage> storage,
            std::unique_ptr<Rows> rows, std::shared_ptr<exec::InFlight> in_flight)
      : Table(options),
        tenant_(std::move(tenant)),
        in_flight_(std::move(in_flight)),
        rows_(std::move(rows)),
        current_(std::move(storage)) {}
  ~PoolTable() override { in_flight_->finish_all(); }

  [[nodiscard]] std::uint64_t slot_count() const override {
    const std::shared_lock lock(mutex_);
    return current_->slot_count();
  }
  [[nodiscard]] std::uint64_t memory_bytes() const override {
    const std::shared_lock lock(mutex_);
    return current_->bytes() + (old_ == nullptr ? 0 : old_->bytes()) +
           (rows_ == nullptr ? 0 : rows_->bytes());
  }
  [[nodiscard]] std::uint64_t rows_free() const override {
    return rows_ == nullptr ? 0 : rows_->free();
  }
  [[nodiscard]] Rows* rows() const { return rows_.get(); }
  [[nodiscard]] std::uint64_t growths() const override {
    const std::shared_lock lock(mutex_);
    return growths_;
  }
  [[nodiscard]] bool is_growing() const override {
    const std::shared_lock lock(mutex_);
    return grows();
  }

  /// What ended a batch in its middle, or OK.
  [[nodiscard]] Status fault() const {
    const std::lock_guard lock(fault_mutex_);
    return base::copy_of(fault_);
  }
  void note_fault(const Status& why) {
    const std::lock_guard lock(fault_mutex_);
    if (fault_.ok()) fault_ = base::copy_of(why);
  }

  /// Batches share it; a section has it for itself. Whoever calls what follows has it.
  [[nodiscard]] base::SectionMutex& mutex() const { return mutex_; }
  [[nodiscard]] Section section() const { return {mutex_, *in_flight_}; }
  [[nodiscard]] GrowingRef ref() const {
    return {current_->ref(), old_ == nullptr ? TableRef() : old_->ref(), moved_};
  }
  [[nodiscard]] Visitors& writers() { return writers_; }
  [[nodiscard]] Storage& current() const { return *current_; }
  [[nodiscard]] bool grows() const { return old_ != nullptr; }
  [[nodiscard]] std::uint64_t moved() const { return moved_; }
  /// Buckets to be moved, that of taken words among them; 0 if it does not grow.
  [[nodiscard]] std::uint64_t to_move() const {
    return old_ == nullptr ? 0 : old_->bucket_count() + 1 - moved_;
  }
  void begin_growth(std::unique_ptr<Storage> into) {
    BRECCIA_ASSERT(old_ == nullptr);
    old_ = std::exchange(current_, std::move(into));
    moved_ = 0;
    ++growths_;
  }
  /// The next so many buckets are in the new table. Work on them is waited for.
  void note_moved(std::uint64_t buckets) {
    BRECCIA_ASSERT(buckets <= to_move());
    moved_ += buckets;
    if (to_move() > 0) return;
    old_.reset();
    moved_ = 0;
  }

 private:
  const exec::TenantPtr tenant_;
  const std::shared_ptr<exec::InFlight> in_flight_;
  const std::unique_ptr<Rows> rows_;
  mutable base::SectionMutex mutex_;
  Visitors writers_;
  std::unique_ptr<Storage> current_;
  std::unique_ptr<Storage> old_;  // while it grows
  std::uint64_t moved_ = 0;       // buckets of it
  std::uint64_t growths_ = 0;
  mutable std::mutex fault_mutex_;
  Status fault_;
};

}  // namespace breccia::hash
