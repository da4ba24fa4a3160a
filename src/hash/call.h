#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "hash/algo/displace.cuh"
#include "hash/algo/move.cuh"
#include "hash/algo/run.cuh"
#include "hash/combine.h"
#include "hash/pool_table.h"

namespace breccia::hash {

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
    return begin_find([&] {
      BRECCIA_TRY(behind());
      return x_.finish();
    });
  }
  /// The same without a wait, which `behind` leaves to whoever wants a section of the table. It has
  /// been waited for if this fails.
  template <class Behind>
  Status begin_find(const Behind& behind) {
    const std::shared_lock lock(table_.mutex());
    // What fails, or throws, is waited for while the table is as it was, and before arrays go.
    exec::Finish<X> finish(x_);
    BRECCIA_TRY(launch_find());
    BRECCIA_TRY(behind());
    finish.dismiss();
    return Status::OK();
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
    BRECCIA_TRY(exec::clear(x_, count_.data(), 1));
    BRECCIA_TRY(x_.template launch<32>(
        slots, algo::Extract<Keys>{table_.ref().old, exec::Unpermute(secret.add, secret.factor),
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
    const Section section = table_.section();
    return place(left);
  }

  /// Runs the batch beside others. If the table grows, it moves its share before.
  Status run_shared(std::uint64_t* left) {
    for (bool has_moved = false;; has_moved = true) {
      {
        const std::shared_lock lock(table_.mutex());
        if (has_moved || !table_.grows()) return run_all(left);
      }
      const Section section = table_.section();
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
    BRECCIA_TRY(exec::clear(x_, count_.data(), kTold));
    std::uint64_t* const crowded = count_.data() + 1;
    const algo::Patience patience{crowded, table_.options().tries_max};
    BRECCIA_TRY(launch_run(tables, list, count, may_crowd(count) ? patience : algo::Patience()));
    BRECCIA_TRY(list_with(Code::kNoRoom, list, count));
    std::uint64_t told[kTold] = {};
    BRECCIA_TRY(x_.copy_out(told, count_.data(), kTold));
    BRECCIA_TRY(x_.finish());
    *left = told[0];
    if (told[1] != 0) {
      BRECCIA_TRY(run_crowded(tables, list, count));
      // What was done only now may have found no room, too.
      BRECCIA_TRY(count_with(Code::kNoRoom, list, count, left));
    }
    std::swap(left_, next_left_);
    return Status::OK();
  }

  /// What a small batch waits for is less than lists and sorting take.
  [[nodiscard]] bool may_crowd(std::uint64_t count) const {
    constexpr std::uint64_t kOfACrowd = 16;
    return count >= kOfACrowd * table_.options().combined_min;
  }

  /// Runs those that gave up: few have met by chance, and get on if they try for longer.
  Status run_crowded(const GrowingRef& tables, const std::uint32_t* list, std::uint64_t count) {
    if constexpr (kMoves) {
      BRECCIA_ASSERT(false);  // its insertions do not
      return Status::OK();
    } else {
      std::uint64_t crowded = 0;
      BRECCIA_TRY(count_with(Code::kCrowded, list, count, &crowded));
      if (crowded < table_.options().combined_min) {
        BRECCIA_TRY(exec::clear(x_, count_.data() + 1, 1));
        BRECCIA_TRY(launch_run(tables, next_left_.data(), crowded,
                               {count_.data() + 1, table_.options().tries_max + kMoreTries}));
        std::uint64_t is_crowded = 0;
        BRECCIA_TRY(x_.copy_out(&is_crowded, count_.data() + 1, 1));
        BRECCIA_TRY(x_.finish());
        if (is_crowded == 0) return Status::OK();
        BRECCIA_TRY(count_with(Code::kCrowded, list, count, &crowded));
      }
      return combine<4>(x_, requests_, next_left_.data(), crowded,
                        algo::WordsOf<Keys>{keys_, tables.table}, keys_,
                        [&](const std::uint32_t* leaders, std::uint64_t n) {
                          return launch_run(tables, leaders, n, {});
                        });
    }
  }

  /// Those of all requests, or of a list, that were answered so come to next_left_.
  Status list_with(Code code, const std::uint32_t* list, std::uint64_t count) {
    return x_.template launch<32>(
        algo::ListOverflow::items(count),
        algo::ListOverflow{requests_, list, count, code, {next_left_.data(), count_.data()}});
  }
  Status count_with(Code code, const std::uint32_t* list, std::uint64_t count,
                    std::uint64_t* with) {
    BRECCIA_TRY(exec::clear(x_, count_.data(), 1));
    BRECCIA_TRY(list_with(code, list, count));
    return fetch_count(with);
  }

  /// Insertions, of keys or of versions, are what there are most of, and kernels of their own.
  Status launch_run(const GrowingRef& tables, const std::uint32_t* list, std::uint64_t count,
                    const algo::Patience& patience) {
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
      if (tables.old.pairs != nullptr) {
        return run_as<true, AnyOperation>(tables, list, count, patience);
      }
    }
    return run_as<false, AnyOperation>(tables, list, count, patience);
  }
  template <bool kGrows, class Operations>
  Status run_as(const GrowingRef& tables, const std::uint32_t* list, std::uint64_t count,
                const algo::Patience& patience = {}) {
    return launch(count,
                  algo::Run<kGrows, Operations, Keys>{tables, requests_, list, keys_, patience});
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
      BRECCIA_TRY(exec::clear(x_, count_.data(), kCounts + *left));
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
  /// Of next_left_, and whether requests gave up.
  static constexpr std::uint64_t kTold = 2;
  static constexpr int kMoreTries = 8;
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

}  // namespace breccia::hash
