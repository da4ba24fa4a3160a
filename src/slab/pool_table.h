#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "base/section_mutex.h"
#include "exec/executor.h"
#include "slab/algo/split.cuh"
#include "slab/backend.h"
#include "slab/reserve.h"
#include "slab/segments.h"

namespace breccia::slab {

/// at[i] = first + i
struct NumberSlabs {
  std::uint32_t* at;
  std::uint64_t first;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t begin) const {
    exec::each_item(group, begin, count,
                    [&](std::uint64_t i) { at[i] = static_cast<std::uint32_t>(first + i); });
  }
};

/// What batches count on a device, and the host reads behind them.
struct Counters {
  static constexpr std::uint64_t kTaken = 0;
  static constexpr std::uint64_t kFreed = 1;
  static constexpr std::uint64_t kSum = 2;
  static constexpr std::uint64_t kTally = 4;
  static constexpr std::uint64_t kWords = kTally + kTallies * kTallyWords;

  std::uint64_t word[kWords] = {};

  /// Of a moment at which a key that went may be counted, and not yet that it came.
  [[nodiscard]] std::uint64_t keys() const {
    std::uint64_t sum = 0;
    for (int i = 0; i < kTallies; ++i) sum += word[kTally + i * kTallyWords];
    return static_cast<std::int64_t>(sum) < 0 ? 0 : sum;
  }
};

/// A table in the pool of a tenant, which it keeps alive. Its shape changes in sections only.
class PoolTable final : public Table {
 public:
  PoolTable(exec::TenantPtr tenant, const TableOptions& options)
      : Table(options),
        tenant_(std::move(tenant)),
        heads_(tenant_->device().host_memory(), first_bits(*tenant_, options),
               Segments::Behind::kHost),
        chained_(tenant_->device().host_memory(),
                 std::max(kChainedBitsMin, first_bits(*tenant_, options) - 4),
                 Segments::Behind::kAnywhere),
        budget_{.bytes_max = options.bytes_max, .host_bytes_max = options.host_bytes_max} {}

  /// Once, before all else.
  /// Errors  MemoryLimit; IOError: the device.
  template <class X>
  Status make(X& x) {
    while (heads_.count() < heads_expected(options())) BRECCIA_TRY(add_heads(x));
    bucket_count_ = heads_.count() - 1;
    BRECCIA_TAKE(counters_, exec::make_array<std::uint64_t>(x, Counters::kWords));
    BRECCIA_TRY(exec::clear(x, counters_.data(), counters_.count()));
    return x.finish();
  }

  [[nodiscard]] Figures figures() const override {
    const std::shared_lock lock(mutex_);
    return {.keys = keys_.load(std::memory_order_relaxed),
            .buckets = bucket_count_,
            .chained = chained_.count(),
            .chained_free = free_count_ - std::min(free_count_, taken_seen_.load()),
            .bytes = budget_.bytes,
            .host_bytes = budget_.host_bytes,
            .reserve = reserve_.slabs(),
            .risen = reserve_.risen()};
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
  [[nodiscard]] TableRef ref() const {
    ReserveRef reserve = reserve_.ref();
    reserve.salt = requests_.load(std::memory_order_relaxed);
    return {.heads = heads_.ref(),
            .reserve = reserve,
            .chained = chained_.ref(),
            .bucket_count = bucket_count_,
            .bucket_mask = std::bit_ceil(bucket_count_) - 1,
            .secret = options().secret,
            .free = free_.data(),
            .free_count = free_count_,
            .taken = counters_.data() + Counters::kTaken,
            .tally = counters_.data() + Counters::kTally};
  }

  /// Reads what was counted; behind what the caller has launched.
  /// Cost    two KiB over the bus, a wait.
  template <class X>
  Status count(X& x, Counters* counters) {
    BRECCIA_TRY(x.copy_out(counters->word, counters_.data(), Counters::kWords));
    BRECCIA_TRY(x.finish());
    note_counted(*counters);
    return Status::OK();
  }
  /// What is counted, Counters::kWords, for who reads it together with other things and notes it.
  [[nodiscard]] const std::uint64_t* counters() const { return counters_.data(); }
  void note_counted(const Counters& counters) {
    keys_.store(counters.keys(), std::memory_order_relaxed);
    taken_seen_.store(counters.word[Counters::kTaken], std::memory_order_relaxed);
  }
  /// Whether puts of a batch that counted this may have found no room.
  [[nodiscard]] bool was_short(const Counters& counters) const {
    return counters.word[Counters::kTaken] > free_count_;
  }
  /// By a batch that may delete, which shares the table.
  void note_deletions() { has_deletions_.store(true, std::memory_order_relaxed); }
  /// Whether there are more keys than its buckets should have.
  [[nodiscard]] bool is_crowded() const {
    const std::uint64_t keys = keys_.load(std::memory_order_relaxed);
    return keys > crowded_from_.load(std::memory_order_relaxed) &&
           keys / options().keys_of_bucket >= bucket_count_;
  }
  /// By a batch of so many requests. Whether it is time for heads to change places.
  bool note_requests(std::uint64_t count) {
    const std::uint64_t before = requests_.fetch_add(count, std::memory_order_relaxed);
    return before + count >= move_at_.load(std::memory_order_relaxed);
  }
  /// Requests that run at once at most, so that no chain becomes long before buckets are split.
  [[nodiscard]] std::uint64_t piece_max() const {
    return std::max(kPieceMin, bucket_count_ * options().keys_of_bucket);
  }

  // ---- in a section ----
  // Errors  MemoryLimit: what was to be done was not, and what there was is all the same. Others:
  //         nobody knows what was done.

  /// Has `slabs` that are free, at least; chains are made shorter for that before there are more.
  template <class X>
  Status make_room(X& x, std::uint64_t slabs) {
    Counters counters;
    BRECCIA_TRY(count(x, &counters));
    if (was_short(counters)) BRECCIA_TRY(take_back(x));
    if (free_of(counters) >= slabs) return Status::OK();
    BRECCIA_TRY(tidy(x, slabs));
    BRECCIA_TRY(count(x, &counters));
    while (free_of(counters) < slabs) {
      BRECCIA_TRY(add_chained(x));
      BRECCIA_TRY(count(x, &counters));
    }
    return Status::OK();
  }

  /// So many buckets more, if the keys want them, and there is memory for them.
  template <class X>
  Status add_buckets(X& x, std::uint64_t buckets) {
    while (buckets > 0 && is_crowded()) {
      const std::uint64_t half = std::bit_floor(bucket_count_);
      const std::uint64_t first = bucket_count_ - half;
      Status status;
      if (heads_.count() == bucket_count_ + 1) status = add_heads(x);
      std::uint64_t count = std::min({buckets, half - first, heads_.count() - 1 - bucket_count_});
      if (status.ok()) status = split_off(x, first, count, half);
      while (status.IsMemoryLimit() && count > 1) {
        count /= 2;
        status = split_off(x, first, count, half);
      }
      if (status.IsMemoryLimit()) {
        // Chains grow longer, until there are so many more keys that it may be tried again.
        crowded_from_ = keys_ + keys_ / 4;
        return Status::OK();
      }
      BRECCIA_TRY(std::move(status));
      bucket_count_ += count;
      buckets -= count;
    }
    return Status::OK();
  }

  /// Hot heads come up, if nobody else has just seen to that.
  template <class X>
  Status move_heads(X& x) {
    if (!note_requests(0)) return Status::OK();
    bool is_done = true;
    Status moved = reserve_.move(x, ref(), &is_done);
    requests_.store(0, std::memory_order_relaxed);
    move_behind(is_done ? 1 : 8);
    return moved.IsMemoryLimit() ? Status::OK() : std::move(moved);
  }

 private:
  static constexpr int kChainedBitsMin = 4;
  static constexpr std::uint64_t kPieceMin = 4096;
  /// So that no head is counted until its note is full.
  static constexpr std::uint64_t kRequestsOfMoveMax = std::uint64_t{1} << 34;

  /// So that all keys that are expected find their buckets; and the head of the key that is kFree.
  static std::uint64_t heads_expected(const TableOptions& options) {
    constexpr std::uint64_t kBucketsMax = std::uint64_t{1} << 32;
    const std::uint64_t buckets =
        std::min(options.keys_expected / options.keys_of_bucket + 1, kBucketsMax);
    return std::uint64_t{1} << std::bit_width(buckets);
  }
  /// All of these, if the backend has room for so many.
  static int first_bits(exec::Tenant& tenant, const TableOptions& options) {
    const std::uint64_t bytes = std::min(options.bytes_max, tenant.bytes_max());
    const std::uint64_t room = std::max<std::uint64_t>(bytes / sizeof(Slab), 1);
    return std::bit_width(std::min(heads_expected(options), std::bit_floor(room))) - 1;
  }

  /// Twice as many heads.
  template <class X>
  Status add_heads(X& x) {
    BRECCIA_TRY(heads_.grow(x, &budget_));
    BRECCIA_TRY(reserve_.cover(x, heads_, chained_.next_count() * sizeof(Slab), &budget_));
    if (reserve_.slabs() > 0 && options().requests_of_head > 0) move_behind(8);
    return Status::OK();
  }

  /// Heads change places behind so many requests, or a `share`th of them.
  void move_behind(std::uint64_t share) {
    const std::uint64_t all =
        std::min(heads_.count() * options().requests_of_head, kRequestsOfMoveMax);
    move_at_.store(std::max<std::uint64_t>(all / share, 1), std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint64_t free_of(const Counters& counters) const {
    return free_count_ - std::min(free_count_, counters.word[Counters::kTaken]);
  }

  /// Splits buckets; bucket_count_ is as it was.
  template <class X>
  Status split_off(X& x, std::uint64_t first, std::uint64_t count, std::uint64_t distance) {
    if (count == 0) return Status::MemoryLimit("no heads for more buckets");
    BRECCIA_TRY(exec::clear(x, counters_.data() + Counters::kSum, 1));
    BRECCIA_TRY(x.template launch<32>(
        count, algo::CountMoved{ref(), first, count, distance, counters_.data() + Counters::kSum}));
    Counters counters;
    BRECCIA_TRY(this->count(x, &counters));
    BRECCIA_TRY(make_room(x, counters.word[Counters::kSum]));
    return split(x, first, count, distance);
  }

  template <class X>
  Status split(X& x, std::uint64_t first, std::uint64_t count, std::uint64_t distance) {
    BRECCIA_TAKE(const auto freed, exec::make_array<std::uint32_t>(x, chained_.count()));
    BRECCIA_TAKE(auto free, exec::make_array<std::uint32_t>(x, chained_.count()));
    BRECCIA_TRY(exec::clear(x, counters_.data() + Counters::kFreed, 1));
    const algo::Split all{
        ref(), first, count, distance, {freed.data(), counters_.data() + Counters::kFreed}};
    return begun(split_and_list(x, all, &free));
  }
  template <class X>
  Status split_and_list(X& x, const algo::Split& all, exec::Array<std::uint32_t>* free) {
    BRECCIA_TRY(x.template launch<32>(all.count, all));
    Counters counters;
    BRECCIA_TRY(this->count(x, &counters));
    BRECCIA_ASSERT(!was_short(counters));
    const std::uint64_t left = free_of(counters);
    const std::uint64_t more = counters.word[Counters::kFreed];
    BRECCIA_ASSERT(left + more <= chained_.count());
    BRECCIA_TRY(x.copy(free->data(), free_.data() + (free_count_ - left), left));
    BRECCIA_TRY(x.copy(free->data() + left, all.freed.number, more));
    return renew_free(x, free, left + more);
  }

  /// Makes all chains as short as they can be, if keys were deleted since. Where that brings
  /// little, there are more slabs, too, or it would be done again and again.
  template <class X>
  Status tidy(X& x, std::uint64_t slabs) {
    constexpr std::uint64_t kShareMin = 8;
    if (!has_deletions_.exchange(false, std::memory_order_relaxed)) return Status::OK();
    Status tidied = split(x, 0, bucket_count_, /*distance=*/0);
    if (tidied.IsMemoryLimit()) {
      note_deletions();
      return Status::OK();  // there may be room for more slabs all the same
    }
    BRECCIA_TRY(std::move(tidied));
    if (free_count_ >= std::max(slabs, chained_.count() / kShareMin)) return Status::OK();
    Status added = add_chained(x);
    return added.IsMemoryLimit() ? Status::OK() : std::move(added);
  }

  /// One segment more of slabs for chains.
  template <class X>
  Status add_chained(X& x) {
    Counters counters;
    BRECCIA_TRY(count(x, &counters));
    BRECCIA_TAKE(auto free,
                 exec::make_array<std::uint32_t>(x, chained_.count() + chained_.next_count()));
    const std::uint64_t before = chained_.count();
    BRECCIA_TRY(chained_.grow(x, &budget_));
    return begun(list_from(x, before, free_of(counters), &free));
  }
  template <class X>
  Status list_from(X& x, std::uint64_t before, std::uint64_t left,
                   exec::Array<std::uint32_t>* free) {
    const std::uint64_t more = chained_.count() - before;
    BRECCIA_TRY(x.copy(free->data(), free_.data() + (free_count_ - left), left));
    BRECCIA_TRY(x.template launch<32>(more, NumberSlabs{free->data() + left, before, more}));
    return renew_free(x, free, left + more);
  }

  template <class X>
  Status renew_free(X& x, exec::Array<std::uint32_t>* free, std::uint64_t count) {
    BRECCIA_TRY(exec::clear(x, counters_.data() + Counters::kTaken, 1));
    BRECCIA_TRY(x.finish());
    std::swap(free_, *free);
    free_count_ = count;
    taken_seen_.store(0, std::memory_order_relaxed);
    return Status::OK();
  }

  /// What was asked for beyond what there was is not taken.
  template <class X>
  Status take_back(X& x) {
    BRECCIA_TAKE(const auto taken, x.import(&free_count_, 1));
    BRECCIA_TRY(x.copy(counters_.data() + Counters::kTaken, taken.data(), 1));
    return x.finish();
  }

  const exec::TenantPtr tenant_;
  mutable base::SectionMutex mutex_;
  Segments heads_;
  Segments chained_;
  Reserve reserve_;
  Budget budget_;
  exec::Array<std::uint64_t> counters_;
  exec::Array<std::uint32_t> free_;
  std::uint64_t free_count_ = 0;
  std::uint64_t bucket_count_ = 0;
  std::atomic<std::uint64_t> keys_{0};
  std::atomic<std::uint64_t> taken_seen_{0};
  std::atomic<std::uint64_t> crowded_from_{0};  // with fewer keys it stays as it is
  std::atomic<bool> has_deletions_{false};
  std::atomic<std::uint64_t> requests_{0};                 // since heads changed places
  std::atomic<std::uint64_t> move_at_{~std::uint64_t{0}};  // behind so many they do again
  mutable std::mutex fault_mutex_;
  Status fault_;
};

}  // namespace breccia::slab
