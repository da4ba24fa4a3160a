#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/memory.h"
#include "exec/executor.h"
#include "hash/algo/clear.cuh"
#include "hash/algo/displace.cuh"
#include "hash/algo/move.cuh"
#include "hash/algo/run.cuh"
#include "hash/backend.h"
#include "hash/id_calls.h"
#include "hash/rows.h"
#include "hash/section_mutex.h"

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
    BRECCIA_TRY(algo::clear(x, pairs_.data(), pairs_.count()));
    return algo::clear(x, bits_.data(), bits_.count());
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
  /// `rows` may be null: values lie in the slots.
  PoolTable(exec::TenantPtr tenant, const TableOptions& options, std::unique_ptr<Storage> storage,
            std::unique_ptr<Rows> rows)
      : Table(options),
        tenant_(std::move(tenant)),
        rows_(std::move(rows)),
        current_(std::move(storage)) {}

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
  [[nodiscard]] SectionMutex& mutex() const { return mutex_; }
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
  const std::unique_ptr<Rows> rows_;
  mutable SectionMutex mutex_;
  Visitors writers_;
  std::unique_ptr<Storage> current_;
  std::unique_ptr<Storage> old_;  // while it grows
  std::uint64_t moved_ = 0;       // buckets of it
  std::uint64_t growths_ = 0;
  mutable std::mutex fault_mutex_;
  Status fault_;
};

inline bool only_finds(const RequestsRef& requests) {
  return requests.operation == nullptr && requests.all == Operation::kFind;
}

inline bool may_delete(const RequestsRef& requests) {
  return requests.operation != nullptr || requests.all == Operation::kDelete ||
         requests.all == Operation::kDrop;
}

/// A group for each request, as wide as the table says.
template <class X, class F>
Status launch_groups(X& x, const Table& table, std::uint64_t requests, const F& functor) {
  switch (table.options().lanes) {
    case 1:
      return x.template launch<1>(requests, functor);
    case 8:
      return x.template launch<8>(requests * 8, functor);
    default:
      return x.template launch<4>(requests * 4, functor);
  }
}

/// One call on one table: its batch, and what its insertions need to find room. `Keys`: what its
/// keys are (algo/keys.cuh).
template <class X, class Keys>
class Call {
 public:
  Call(X& x, PoolTable& table, const RequestsRef& requests, const Keys& keys)
      : x_(x), table_(table), requests_(requests), keys_(keys) {}

  Status run() {
    if (only_finds(requests_)) return find([] { return Status::OK(); });
    BRECCIA_TRY(allocate());
    Status status = change();
    // Nobody may take it for a batch that was not run.
    if (status.IsMemoryLimit()) status = Status::IOError("memory ran out in mid-batch");
    if (!status.ok()) table_.note_fault(status);
    return status;
  }

  /// Finds, and what `behind` launches behind them, with one wait for both.
  template <class Behind>
  Status find(const Behind& behind) {
    const std::shared_lock lock(table_.mutex());
    BRECCIA_TRY(launch_find());
    BRECCIA_TRY(behind());
    return x_.finish();
  }

  /// In a section: inserts the pairs of the next buckets into the new table. For a Call without
  /// requests.
  Status move(std::uint64_t buckets) {
    const std::uint64_t slots = buckets * kBucketPairs;
    BRECCIA_TAKE(const auto keys, exec::make_array<std::uint64_t>(x_, slots));
    BRECCIA_TAKE(const auto values, exec::make_array<std::uint64_t>(x_, slots));
    BRECCIA_TAKE(const auto codes, exec::make_array<Code>(x_, slots));
    requests_.all = Operation::kInsert;
    requests_.key = keys.data();
    requests_.value = values.data();
    requests_.code = codes.data();
    requests_.count = slots;
    BRECCIA_TRY(allocate());
    const Secret& secret = table_.options().secret;
    BRECCIA_TRY(algo::clear(x_, count_.data(), 1));
    BRECCIA_TRY(x_.template launch<32>(
        slots, algo::Extract<Keys>{table_.ref().old, algo::Unpermute(secret.add, secret.factor),
                                   table_.moved() * kBucketPairs, slots, keys.data(), values.data(),
                                   count_.data()}));
    BRECCIA_TRY(fetch_count(&requests_.count));
    bool has_room = true;
    const Status moved = insert_moved(&has_room);
    // Copies that are in both tables would be there twice.
    if (moved.IsMemoryLimit()) return Status::IOError("memory ran out while the table grew");
    BRECCIA_TRY(base::copy_of(moved));
    return has_room ? Status::OK()
                    : Status::MemoryLimit("a table of twice the size has no room for its keys");
  }

 private:
  Status change() {
    std::uint64_t left = 0;
    BRECCIA_TRY(run_shared(&left));
    if (left == 0) return Status::OK();
    const std::unique_lock section(table_.mutex());
    return place(left);
  }

  /// Runs the batch beside others. If the table grows, it moves its share before.
  Status run_shared(std::uint64_t* left) {
    for (bool has_moved = false;; has_moved = true) {
      {
        const std::shared_lock lock(table_.mutex());
        if (has_moved || !table_.grows()) return run_all(left);
      }
      const std::unique_lock section(table_.mutex());
      const std::uint64_t least = std::max<std::uint64_t>(table_.options().moved_min, 1);
      BRECCIA_TRY(try_to_move(std::max(least, requests_.count / 2)));
    }
  }

  Status launch_find() {
    const std::uint64_t n = requests_.count;
    using algo::AnyOperation;
    if (table_.grows()) return run_as<true, AnyOperation>(table_.ref(), nullptr, n);
    if constexpr (Keys::kInSlots) {
      return launch(n, algo::Find{table_.current().ref(), requests_});
    } else {  // seldom: RowsCall::find_at_once() has found it growing
      return run_as<false, AnyOperation>(table_.ref(), nullptr, n);
    }
  }

  Status allocate() {
    for (exec::Array<std::uint32_t>* column : {&left_, &next_left_, &far_}) {
      BRECCIA_TAKE(*column,
                   exec::make_array<std::uint32_t>(
                       x_, algo::Parted::part_size_for(requests_.count) * algo::Parted::kParts));
    }
    BRECCIA_TAKE(count_, exec::make_array<std::uint64_t>(x_, kCounts + requests_.count));
    return Status::OK();
  }

  /// Runs the batch; *left of it are in left_.
  Status run_all(std::uint64_t* left) {
    const Visitors::Visit visit(table_.writers());
    visit_ = visit.number();
    if (may_delete(requests_)) table_.current().note_deletions();
    sweeps_seen_ = table_.current().sweeps();
    return run_on(table_.ref(), nullptr, requests_.count, left);
  }

  /// Runs `count` requests, all or those of a list; the *left that find no room are in left_ then.
  Status run_on(const GrowingRef& tables, const std::uint32_t* list, std::uint64_t count,
                std::uint64_t* left) {
    BRECCIA_TRY(launch_run(tables, list, count));
    BRECCIA_TRY(algo::clear(x_, count_.data(), 1));
    BRECCIA_TRY(x_.template launch<32>(
        algo::ListOverflow::items(count),
        algo::ListOverflow{requests_, list, count, {next_left_.data(), count_.data()}}));
    return fetch_left(left);
  }

  /// Insertions, of keys or of versions, are what there are most of, and kernels of their own.
  Status launch_run(const GrowingRef& tables, const std::uint32_t* list, std::uint64_t count) {
    using algo::AnyOperation, algo::OnlyOperation;
    if (requests_.operation == nullptr && tables.old.pairs == nullptr) {
      if (requests_.all == Operation::kInsert) {
        return run_as<false, OnlyOperation<Operation::kInsert>>(tables, list, count);
      }
      if constexpr (Keys::kInSlots) {
        if (requests_.all == Operation::kRaise) {
          return run_as<false, OnlyOperation<Operation::kRaise>>(tables, list, count);
        }
      }
    }
    if constexpr (!kMoves) {
      if (tables.old.pairs != nullptr) return run_as<true, AnyOperation>(tables, list, count);
    }
    return run_as<false, AnyOperation>(tables, list, count);
  }
  template <bool kGrows, class Operations>
  Status run_as(const GrowingRef& tables, const std::uint32_t* list, std::uint64_t count) {
    return launch(count, algo::Run<kGrows, Operations, Keys>{tables, requests_, list, keys_});
  }

  /// What is in next_left_ is what is left.
  Status fetch_left(std::uint64_t* left) {
    BRECCIA_TRY(fetch_count(left));
    std::swap(left_, next_left_);
    return Status::OK();
  }

  /// In a section: makes room for the `left` requests in left_. What lies in an old table
  /// has its place in the new one before new keys take it.
  Status place(std::uint64_t left) {
    BRECCIA_TRY(try_to_move(table_.to_move()));
    BRECCIA_TRY(sweep().status());
    const bool was_alone = table_.writers().enter_section(visit_);
    if (!was_alone || table_.current().sweeps() != sweeps_seen_) {
      // Others may have inserted their keys, and in buckets that were swept there is room.
      BRECCIA_TRY(run_on(table_.ref(), left_.data(), left, &left));
      if (left == 0) return Status::OK();
    }
    bool are_absent = true;
    // Of so many most would look for short ways in vain.
    if (left > table_.current().slot_count() / 16) {
      BRECCIA_TAKE(const bool has_grown, try_to_grow(left));
      are_absent = !has_grown;  // in the new table they would not find room, but an empty slot
    }
    for (;;) {
      BRECCIA_TRY(displace(table_.ref(), are_absent, &left));
      if (left == 0) return Status::OK();
      BRECCIA_TAKE(const bool has_grown, try_to_grow(left));
      if (!has_grown) return Status::OK();  // they have said that there is no room
      are_absent = false;
    }
  }

  /// As grow(); false: it may not, or there is no memory.
  Result<bool> try_to_grow(std::uint64_t more) {
    const Status grown = grow(more);
    if (grown.IsMemoryLimit()) return false;
    BRECCIA_TRY(base::copy_of(grown));
    return true;
  }
  /// As move_some(), as far as memory and room allow: a duty, and no condition of what follows.
  Status try_to_move(std::uint64_t buckets) {
    const Status moved = move_some(buckets);
    return moved.IsMemoryLimit() ? Status::OK() : base::copy_of(moved);
  }

  /// In a section: slots of deleted keys become empty. False: there can be none.
  Result<bool> sweep() {
    Storage& current = table_.current();
    if (!current.take_deletions()) return false;
    BRECCIA_TRY(x_.template launch<1>(current.map_words(),
                                      algo::Sweep{current.ref(), current.map_words()}));
    return true;
  }

  /// Runs the *left requests in left_; those that find no room are there afterwards. If they are
  /// absent, nobody can have inserted them since they last looked, and no slot became empty.
  Status displace(const GrowingRef& tables, bool are_absent, std::uint64_t* left) {
    for (std::uint64_t before = *left + 1; *left > 0 && *left < before; are_absent = false) {
      before = *left;
      if (!are_absent) {
        BRECCIA_TRY(run_on(tables, left_.data(), *left, left));
        if (*left == 0) return Status::OK();
      }
      std::uint64_t* const parts = count_.data() + algo::Parted::kStride;
      std::uint64_t* const taken = count_.data() + kCounts;
      BRECCIA_TRY(algo::clear(x_, count_.data(), kCounts + *left));
      const std::uint64_t part_size = algo::Parted::part_size_for(*left);
      const algo::DisplaceNear<Keys> near{
          tables.table,
          requests_,
          left_.data(),
          // So many words that only few have to come again for others.
          {taken, *left},
          {far_.data(), parts, part_size},
          {next_left_.data(), count_.data()},
          keys_};
      BRECCIA_TRY(launch(*left, near));
      const std::uint64_t stride = std::min(part_size, std::max(part_size / 8, kFarStrideMin));
      BRECCIA_TRY(launch(stride * algo::Parted::kParts, algo::DisplaceFar<Keys>{near, stride}));
      BRECCIA_TRY(fetch_left(left));
    }
    return Status::OK();
  }

  /// In a section: ends a growth that is under way, else begins one, to twice the size at least.
  /// All that there is and `more` keys fill two thirds of it at most, and each batch moves four
  /// times as many slots as it may fill: it does not fill up before all is moved. Where it may not
  /// be so large, all is moved at once.
  /// Errors  MemoryLimit: it may not grow, or there is no memory.
  Status grow(std::uint64_t more) {
    if (table_.grows()) return move_some(table_.to_move());
    const std::uint64_t least = 2 * table_.current().bucket_count();
    const std::uint64_t most = table_.options().slots_max / kBucketPairs;
    if (least > most) return Status::MemoryLimit("the table may not grow");
    // Of `more` requests many may be for one key.
    const std::uint64_t keys = table_.current().slot_count() + more;
    std::uint64_t buckets = least;
    while (buckets * kBucketPairs < keys + keys / 2) buckets *= 2;
    const bool is_ample = buckets <= most;
    buckets = std::min(buckets, most);
    BRECCIA_TAKE(auto into, Storage::make(x_.pool(), table_.options().secret, buckets));
    BRECCIA_TRY(into->clear(x_));
    BRECCIA_TRY(x_.finish());
    table_.begin_growth(std::move(into));
    return is_ample ? Status::OK() : try_to_move(table_.to_move());
  }

  /// In a section: moves the next buckets of the old table, or all that are left.
  Status move_some(std::uint64_t buckets) {
    while (buckets > 0 && table_.grows()) {
      const std::uint64_t piece = std::min({buckets, table_.to_move(), kBucketsAtOnce});
      Call<X, typename Keys::Moved> moving(x_, table_, {}, {});
      BRECCIA_TRY(moving.move(piece));
      table_.note_moved(piece);
      buckets -= piece;
    }
    return Status::OK();
  }

  /// The old table is not looked at: what moves is there, too. Where it finds no room all stays
  /// where it was.
  Status insert_moved(bool* has_room) {
    const GrowingRef only_new{table_.ref().table, {}, 0};
    std::uint64_t left = 0;
    BRECCIA_TRY(run_on(only_new, nullptr, requests_.count, &left));
    if (left == 0) return Status::OK();
    BRECCIA_TAKE(const bool has_swept, sweep());
    BRECCIA_TRY(displace(only_new, /*are_absent=*/!has_swept, &left));
    *has_room = left == 0;
    return *has_room ? Status::OK() : take_back();
  }

  /// What was moved in vain must not stay where it is not changed any more.
  Status take_back() {
    const GrowingRef only_new{table_.ref().table, {}, 0};
    requests_.all = Operation::kDelete;
    table_.current().note_deletions();
    BRECCIA_TRY((run_as<false, algo::AnyOperation>(only_new, nullptr, requests_.count)));
    // Their slots were empty before, and others look for room next.
    BRECCIA_TRY(sweep().status());
    return x_.finish();
  }

  Status fetch_count(std::uint64_t* count) {
    BRECCIA_TRY(x_.copy_out(count, count_.data(), 1));
    return x_.finish();
  }

  template <class F>
  Status launch(std::uint64_t requests, const F& functor) {
    return launch_groups(x_, table_, requests, functor);
  }

  /// It moves keys in rows: those are in no table that grows.
  static constexpr bool kMoves = std::is_same_v<Keys, algo::MovedKeys>;
  /// Of next_left_, and of the parts of far_.
  static constexpr std::uint64_t kCounts = (1 + algo::Parted::kParts) * algo::Parted::kStride;
  /// Groups of a part, if it has so many: a device runs them all at once.
  static constexpr std::uint64_t kFarStrideMin = 16;
  static constexpr std::uint64_t kBucketsAtOnce = 1 << 18;  // 2 Mi pairs: 50 MiB of columns

  X& x_;
  PoolTable& table_;
  RequestsRef requests_;
  const Keys keys_;
  std::uint64_t visit_ = 0;
  std::uint64_t sweeps_seen_ = 0;
  exec::Array<std::uint32_t> left_, next_left_;  // numbers of requests that found no room
  exec::Array<std::uint32_t> far_;               // those for which one move is not enough
  exec::Array<std::uint64_t> count_;             // kCounts, and a word a request: algo::TakenRef
};

/// One call on a table with rows: what it does to slots is a Call with the rows' numbers for
/// values.
template <class X>
class RowsCall {
 public:
  RowsCall(X& x, PoolTable& table, const ValueRequestsRef& requests)
      : x_(x),
        table_(table),
        rows_(*table.rows()),
        given_(requests),
        requests_(requests.requests),
        may_write_(requests_.operation != nullptr || algo::needs_row(requests_.all)) {}

  Status run() {
    const Grace::Stay stay(rows_.grace());
    if (has_keys() && only_finds(requests_)) {
      BRECCIA_TAKE(const bool is_done, find_at_once());
      if (is_done) return Status::OK();
    }
    BRECCIA_TRY(allocate());
    if (may_write_) BRECCIA_TRY(put());
    requests_.value = may_write_ ? own_.data() : nullptr;
    requests_.found = before_.data();
    const Status status = has_keys()
                              ? Call(x_, table_, requests_, keys(rows_.shape().key_pairs())).run()
                              : Call(x_, table_, requests_, algo::WordKeys()).run();
    if (!status.ok() && !status.IsMemoryLimit()) return base::copy_of(status);
    const Status behind = finish(/*is_undone=*/!status.ok());
    if (!behind.ok()) {
      const Status fault = behind.IsMemoryLimit() ? Status::IOError("memory ran out behind a batch")
                                                  : base::copy_of(behind);
      table_.note_fault(fault);
      return base::copy_of(fault);
    }
    return base::copy_of(status);
  }

 private:
  [[nodiscard]] bool has_keys() const { return table_.options().keys_in_rows(); }
  /// `pairs_read` as in algo::RowKeys.
  [[nodiscard]] algo::RowKeys keys(std::uint32_t pairs_read) const {
    const auto ends = reinterpret_cast<std::uintptr_t>(given_.key) | rows_.shape().key_bytes;
    std::uint32_t load_bytes = 16;
    while (ends % load_bytes != 0) load_bytes /= 2;
    if (load_bytes == 2) load_bytes = 1;
    return {.rows = rows_.ref(),
            .column = given_.key,
            .load_bytes = load_bytes,
            .pairs_read = pairs_read,
            .hash_mask = table_.options().hash_mask};
  }

  /// Finds alone of keys in rows, which need nothing but the slots and the rows. False: the table
  /// grows.
  Result<bool> find_at_once() {
    const std::shared_lock lock(table_.mutex());
    if (table_.grows()) return false;
    BRECCIA_TRY(launch_groups(
        x_, table_, requests_.count,
        algo::FindInRows{table_.current().ref(), requests_, keys(rows_.shape().pairs()),
                         reinterpret_cast<std::uint64_t*>(given_.found)}));
    BRECCIA_TRY(x_.finish());
    return true;
  }

  /// All that is needed, before anything is done.
  Status allocate() {
    const std::uint64_t n = requests_.count;
    BRECCIA_TAKE(before_, exec::make_array<std::uint64_t>(x_, n));
    if (!leaves_rows()) return Status::OK();
    BRECCIA_TAKE(own_, exec::make_array<std::uint64_t>(x_, may_write_ ? n : 0));
    BRECCIA_TAKE(free_, exec::make_array<std::uint32_t>(x_, 2 * n));
    BRECCIA_TAKE(free_count_, exec::make_array<std::uint64_t>(x_, 1));
    return Status::OK();
  }
  [[nodiscard]] bool leaves_rows() const {
    return may_write_ || requests_.all == Operation::kDelete;
  }

  Status put() {
    BRECCIA_TAKE(const std::uint64_t begin, rows_.take(x_, requests_.count));
    const Status put = has_keys() ? put_keyed(begin) : put_values(begin);
    if (!put.ok()) rows_.untake(begin, requests_.count);
    return base::copy_of(put);
  }
  Status put_values(std::uint64_t begin) {
    return with_row_words(
        rows_.shape(), {given_.value}, [&]<class Word>(const Word*, std::uint32_t words) {
          return x_.template launch<32>(
              requests_.count * words,
              algo::PutRows<Word>{rows_.ref(), requests_, begin,
                                  reinterpret_cast<const Word*>(given_.value), own_.data(), words});
        });
  }
  Status put_keyed(std::uint64_t begin) {
    return x_.template launch<4>(
        requests_.count * 4,
        algo::PutKeyedRows{keys(rows_.shape().key_pairs()), requests_, begin % rows_.count(),
                           reinterpret_cast<const std::uint64_t*>(given_.value), own_.data()});
  }

  Status finish(bool is_undone) {
    if (given_.found != nullptr && !is_undone) BRECCIA_TRY(get());
    if (!leaves_rows()) return x_.finish();
    std::uint64_t count = 0;
    BRECCIA_TRY(algo::clear(x_, free_count_.data(), 1));
    BRECCIA_TRY(x_.template launch<32>(
        requests_.count,
        algo::GiveBack{requests_, may_write_ ? own_.data() : nullptr, before_.data(), is_undone,
                       free_.data(), free_count_.data()}));
    BRECCIA_TRY(x_.copy_out(&count, free_count_.data(), 1));
    BRECCIA_TRY(x_.finish());
    return rows_.give(x_, std::move(free_), count);
  }

  Status get() {
    return with_row_words(rows_.shape(), {given_.found},
                          [&]<class Word>(const Word*, std::uint32_t words) {
                            return x_.template launch<32>(
                                requests_.count * words,
                                algo::GetRows<Word>::of(rows_.ref(), before_.data(), requests_.code,
                                                        given_.found, requests_.count));
                          });
  }

  X& x_;
  PoolTable& table_;
  Rows& rows_;
  const ValueRequestsRef given_;
  RequestsRef requests_;
  const bool may_write_;
  exec::Array<std::uint64_t> own_, before_;
  exec::Array<std::uint32_t> free_;
  exec::Array<std::uint64_t> free_count_;
};

/// The calls of Backend for a tenant's type.
template <class Tenant>
class BackendOn final : public Backend {
 public:
  explicit BackendOn(const std::shared_ptr<Tenant>& tenant) : Backend(tenant), own_(*tenant) {}

  Result<TablePtr> make_table(const TableOptions& options) override {
    BRECCIA_ASSERT(options.lanes == 1 || options.lanes == 4 || options.lanes == 8);
    BRECCIA_ASSERT(is_secret(options.secret.factor) && is_secret(options.secret.second_factor));
    if (options.slots_min > kSlotsMax) {
      return Status::InvalidArgument("a table of more than 2^48 slots");
    }
    BRECCIA_TRY(check_sizes(options));
    const std::uint64_t buckets = base::round_up(options.slots_min, kBucketPairs) / kBucketPairs;
    BRECCIA_TAKE(auto storage, Storage::make(own_.pool(), options.secret,
                                             std::max<std::uint64_t>(buckets, kChoices)));
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TRY(storage->clear(*x));
    std::unique_ptr<Rows> rows;
    if (options.has_rows()) {
      const std::uint64_t key_bytes = options.keys_in_rows() ? options.key_bytes : 0;
      BRECCIA_TAKE(
          rows, Rows::make(*x, algo::RowShape::of(key_bytes, options.value_bytes), options.rows));
    }
    BRECCIA_TRY(x->finish());
    return TablePtr(
        std::make_shared<PoolTable>(tenant_ptr(), options, std::move(storage), std::move(rows)));
  }

  Status run(Table& table, const RequestsRef& requests) override {
    const std::uint64_t n = requests.count;
    if (n == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const auto keys, x->import(requests.key, n));
    BRECCIA_TAKE(const auto values, x->import(requests.value, count_of(requests.value, n)));
    BRECCIA_TAKE(const auto operations,
                 x->import(requests.operation, count_of(requests.operation, n)));
    BRECCIA_TAKE(const auto found,
                 exec::make_array<std::uint64_t>(*x, count_of(requests.found, n)));
    BRECCIA_TAKE(const auto codes, exec::make_array<Code>(*x, n));
    RequestsRef here = requests;
    here.key = keys.data();
    if (requests.value != nullptr) here.value = values.data();
    if (requests.operation != nullptr) here.operation = operations.data();
    if (requests.found != nullptr) here.found = found.data();
    here.code = codes.data();
    const exec::Finish finish(*x);
    BRECCIA_TRY(run_on(*x, table, here));
    return behind(table, requests, bring_back(*x, here, requests, found.data(), requests.found, 1));
  }

  Status run_here(Table& table, const RequestsRef& requests) override {
    if (requests.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    return run_on(*x, table, requests);
  }

  Status run_values(Table& table, const ValueRequestsRef& given) override {
    const RequestsRef& requests = given.requests;
    const std::uint64_t n = requests.count;
    if (n == 0) return Status::OK();
    if (requests.operation != nullptr &&
        std::any_of(requests.operation, requests.operation + n, compares_values)) {
      return Status::InvalidArgument(kNoComparing);
    }
    const std::uint64_t bytes = n * table.options().value_bytes;
    const std::uint64_t key_bytes = n * table.options().key_bytes;
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const auto words, x->import(requests.key, count_of(requests.key, n)));
    BRECCIA_TAKE(const auto keys, x->import(given.key, count_of(given.key, key_bytes)));
    BRECCIA_TAKE(const auto values, x->import(given.value, count_of(given.value, bytes)));
    BRECCIA_TAKE(const auto operations,
                 x->import(requests.operation, count_of(requests.operation, n)));
    // What is found of absent keys stays as it is.
    BRECCIA_TAKE(const auto kept, x->import(given.found, count_of(given.found, bytes)));
    BRECCIA_TAKE(const auto found, exec::make_array<char>(*x, count_of(given.found, bytes)));
    BRECCIA_TAKE(const auto codes, exec::make_array<Code>(*x, n));
    const exec::Finish finish(*x);
    BRECCIA_TRY(x->copy(found.data(), kept.data(), found.count()));
    ValueRequestsRef here = given;
    if (requests.key != nullptr) here.requests.key = words.data();
    if (given.key != nullptr) here.key = keys.data();
    if (given.value != nullptr) here.value = values.data();
    if (requests.operation != nullptr) here.requests.operation = operations.data();
    if (given.found != nullptr) here.found = found.data();
    here.requests.code = codes.data();
    BRECCIA_TRY(run_values_on(*x, table, here));
    return behind(table, requests,
                  bring_back(*x, here.requests, requests, found.data(), given.found,
                             table.options().value_bytes));
  }

  Status run_values_here(Table& table, const ValueRequestsRef& requests) override {
    if (requests.requests.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    return run_values_on(*x, table, requests);
  }

  std::unique_ptr<RowLookup> make_lookup(Cache* cache, const RowsOutRef& rows) override {
    BRECCIA_ASSERT(rows.ids.count > 0 && rows.ids.count < kRequestsMax);
    BRECCIA_ASSERT(is_of_words(rows.row, rows.row_bytes));
    BRECCIA_ASSERT(cache == nullptr || cache->row_bytes() == rows.row_bytes);
    const auto find = [](auto& x, Table& table, const RequestsRef& requests, const auto& behind) {
      auto& own = static_cast<PoolTable&>(table);
      BRECCIA_TRY(own.fault());
      return Call(x, own, requests, algo::WordKeys()).find(behind);
    };
    return std::make_unique<PoolRowLookup<Tenant, decltype(find)>>(
        own_, static_cast<PoolCache*>(cache), rows, find);
  }

  Result<CachePtr> make_cache(std::uint64_t row_bytes, std::uint64_t bytes_max) override {
    if (!is_of_words(nullptr, row_bytes)) {
      return Status::InvalidArgument("rows of no multiple of 8 bytes");
    }
    BRECCIA_TAKE(exec::TenantPtr tenant,
                 device().admit({.name = "hash rows", .cost = exec::GiveCost::kCopy}));
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(CachePtr cache, PoolCache::make(*x, std::move(tenant), row_bytes, bytes_max));
    return cache;
  }

  Result<std::unique_ptr<RowRecords>> write_records(const RowsInRef& rows) override {
    BRECCIA_ASSERT(is_of_words(rows.row, rows.row_bytes));
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(std::unique_ptr<RowRecords> records, PoolRowRecords::make(*x, device(), rows));
    return Result<std::unique_ptr<RowRecords>>(std::move(records));
  }

  Status raise_records(Table& table, RowRecords& records, std::uint64_t first_payload,
                       std::uint64_t* absent) override {
    *absent = 0;
    if (records.count() == 0) return Status::OK();
    auto& own = static_cast<PoolRowRecords&>(records);
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const RequestsRef raise, own.place(*x, first_payload));
    const Status raised = run_on(*x, table, raise);
    if (!raised.ok()) {
      (void)x->finish();  // what was launched before it
      return base::copy_of(raised);
    }
    return own.settle(*x, absent);
  }

  Status copy_in(char* here, const char* host, std::uint64_t bytes) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const auto imported, x->import(host, bytes));
    BRECCIA_TRY(x->copy(here, imported.data(), bytes));
    return x->finish();
  }
  Status copy_out(char* host, const char* here, std::uint64_t bytes) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TRY(x->copy_out(host, here, bytes));
    return x->finish();
  }

  Status read(const Table& table, TableImage* image) override {
    BRECCIA_TAKE(auto x, own_.executor());
    image->tables = static_cast<const PoolTable&>(table).ref();
    const Rows* const rows = static_cast<const PoolTable&>(table).rows();
    image->rows.resize(rows == nullptr ? 0 : rows->count() * rows->shape().bytes());
    if (rows != nullptr) {
      BRECCIA_TRY(x->copy_out(image->rows.data(), rows->ref().bytes, image->rows.size()));
    }
    BRECCIA_TRY(read_one(*x, &image->tables.table, &image->pairs, &image->maps));
    return read_one(*x, &image->tables.old, &image->old_pairs, &image->old_maps);
  }

 private:
  template <class X>
  static Status run_on(X& x, Table& table, const RequestsRef& requests) {
    if (requests.count >= kRequestsMax) {
      return Status::InvalidArgument("a batch of 2^32 requests or more", "divide it");
    }
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_ASSERT(own.rows() == nullptr);
    BRECCIA_TRY(own.fault());
    return Call(x, own, requests, algo::WordKeys()).run();
  }

  template <class X>
  static Status run_values_on(X& x, Table& table, const ValueRequestsRef& requests) {
    if (requests.requests.count >= kRequestsMax / 2) {
      return Status::InvalidArgument("a batch of 2^31 requests or more", "divide it");
    }
    if (reinterpret_cast<std::uintptr_t>(requests.value) % sizeof(std::uint64_t) != 0 ||
        reinterpret_cast<std::uintptr_t>(requests.found) % sizeof(std::uint64_t) != 0) {
      return Status::InvalidArgument("values that do not lie at multiples of 8 bytes");
    }
    if (requests.requests.operation == nullptr && compares_values(requests.requests.all)) {
      return Status::InvalidArgument(kNoComparing);
    }
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_ASSERT(own.rows() != nullptr);
    BRECCIA_ASSERT((table.options().keys_in_rows() ? requests.key != nullptr
                                                   : requests.requests.key != nullptr));
    BRECCIA_TRY(own.fault());
    return RowsCall<X>(x, own, requests).run();
  }

  static constexpr char kNoComparing[] = "operations that compare values, which lie in rows";
  static bool compares_values(Operation operation) {
    return operation == Operation::kRaise || operation == Operation::kDrop;
  }
  static bool is_of_words(const char* rows, std::uint64_t row_bytes) {
    return row_bytes > 0 && row_bytes % sizeof(std::uint64_t) == 0 &&
           reinterpret_cast<std::uintptr_t>(rows) % sizeof(std::uint64_t) == 0;
  }
  /// As many, if there is a column.
  static std::uint64_t count_of(const void* column, std::uint64_t count) {
    return column == nullptr ? 0 : count;
  }

  /// What fails behind a batch that writes was done, and nobody knows what.
  static Status behind(Table& table, const RequestsRef& requests, Status status) {
    if (only_finds(requests)) return status;
    if (status.IsMemoryLimit()) status = Status::IOError("memory ran out behind a batch");
    if (!status.ok()) static_cast<PoolTable&>(table).note_fault(status);
    return status;
  }
  template <class X, class T>
  static Status bring_back(X& x, const RequestsRef& from, const RequestsRef& to, const T* found,
                           T* found_to, std::uint64_t width) {
    BRECCIA_TRY(x.copy_out(to.code, from.code, to.count));
    if (found_to != nullptr) BRECCIA_TRY(x.copy_out(found_to, found, width * to.count));
    return x.finish();
  }

  template <class X>
  static Status read_one(X& x, TableRef* table, std::vector<Pair>* pairs,
                         std::vector<std::uint32_t>* maps) {
    const bool is_there = table->pairs != nullptr;
    const std::uint64_t map_words = is_there ? table->bucket_count / 32 + 1 : 0;
    pairs->resize(is_there ? (table->bucket_count + 1) * kBucketPairs : 0);
    maps->resize(2 * map_words);
    BRECCIA_TRY(x.copy_out(pairs->data(), table->pairs, pairs->size()));
    BRECCIA_TRY(x.copy_out(maps->data(), table->was_full, map_words));
    BRECCIA_TRY(x.copy_out(maps->data() + map_words, table->is_full, map_words));
    table->pairs = pairs->data();
    table->was_full = maps->data();
    table->is_full = maps->data() + map_words;
    table->has_deleted = nullptr;
    return x.finish();
  }

  static Status check_sizes(const TableOptions& options) {
    if (options.key_bytes < kKeyBytesMin || options.key_bytes > kKeyBytesMax) {
      return Status::InvalidArgument("keys of another size than 4 to 64 bytes");
    }
    if (options.value_bytes == 0 || options.value_bytes % 8 != 0 ||
        options.value_bytes > kValueBytesMax ||
        (options.has_rows() && options.rows >= kRequestsMax)) {
      return Status::InvalidArgument(
          "values of another size than 8, 16, ... 4096 bytes, or 2^32 rows");
    }
    return Status::OK();
  }

  /// Even factors make two keys one.
  static bool is_secret(std::uint64_t factor) { return factor % 2 == 1 && factor != 1; }

  static constexpr std::uint64_t kKeyBytesMin = 4;
  static constexpr std::uint64_t kKeyBytesMax = sizeof(Pair) * algo::kKeyPairsMax;
  static constexpr std::uint64_t kValueBytesMax = 4096;
  static constexpr std::uint64_t kSlotsMax = std::uint64_t{1} << 48;
  /// Numbers of requests have 32 bits.
  static constexpr std::uint64_t kRequestsMax = std::uint64_t{1} << 32;

  Tenant& own_;
};

}  // namespace breccia::hash
