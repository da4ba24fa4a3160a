#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/memory.h"
#include "exec/executor.h"
#include "slab/algo/run.cuh"
#include "slab/pool_table.h"

namespace breccia::slab {

/// One batch on one table, whose columns lie in the executor's memory.
template <class X>
class Call {
 public:
  Call(X& x, PoolTable& table, const RequestsRef& requests)
      : x_(x), table_(table), requests_(requests) {}

  Status run() {
    if (only_finds(requests_)) {
      const std::shared_lock lock(table_.mutex());
      BRECCIA_TRY(launch(nullptr, requests_.count));
      return x_.finish();
    }
    BRECCIA_TRY(allocate());
    if (may_delete(requests_)) table_.note_deletions();
    Status status = change();
    // Nobody may take it for a batch that was not run.
    if (status.IsMemoryLimit()) status = Status::IOError("memory ran out in mid-batch");
    if (!status.ok()) table_.note_fault(status);
    return status;
  }

 private:
  /// Buckets that a batch of one request adds at least, where there are too few.
  static constexpr std::uint64_t kAddedMin = 256;

  Status allocate() {
    for (exec::Array<std::uint32_t>* column : {&left_, &next_left_}) {
      BRECCIA_TAKE(*column, exec::make_array<std::uint32_t>(x_, requests_.count));
    }
    BRECCIA_TAKE(left_count_, exec::make_array<std::uint64_t>(x_, 1));
    return Status::OK();
  }

  Status change() {
    if (is_crowded()) {
      const std::unique_lock section(table_.mutex());
      BRECCIA_TRY(table_.add_buckets(x_, std::max(kAddedMin, requests_.count / 2)));
    }
    std::uint64_t left = 0;
    BRECCIA_TRY(run_some(nullptr, requests_.count, &left));
    while (left > 0) {
      {
        const std::unique_lock section(table_.mutex());
        const Status room = table_.make_room(x_, 1);
        if (room.IsMemoryLimit()) return Status::OK();  // these say so
        BRECCIA_TRY(base::copy_of(room));
      }
      BRECCIA_TRY(run_some(left_.data(), left, &left));
    }
    return Status::OK();
  }

  bool is_crowded() {
    const std::shared_lock lock(table_.mutex());
    return table_.is_crowded();
  }

  /// Runs all requests, or those of a list; the *left that found no room are in left_ then.
  Status run_some(const std::uint32_t* list, std::uint64_t count, std::uint64_t* left) {
    const std::shared_lock lock(table_.mutex());
    *left = 0;
    BRECCIA_TRY(launch(list, count));
    Counters counters;
    BRECCIA_TRY(table_.count(x_, &counters));
    if (!table_.was_short(counters)) return Status::OK();
    BRECCIA_TRY(exec::clear(x_, left_count_.data(), 1));
    BRECCIA_TRY(x_.template launch<32>(
        count, algo::ListOverflow{requests_, list, count, next_left_.data(), left_count_.data()}));
    BRECCIA_TRY(x_.copy_out(left, left_count_.data(), 1));
    BRECCIA_TRY(x_.finish());
    std::swap(left_, next_left_);
    return Status::OK();
  }

  /// A group for each request, as wide as the table says.
  Status launch(const std::uint32_t* list, std::uint64_t count) {
    const algo::Run run{table_.ref(), requests_, list};
    switch (table_.options().lanes) {
      case 4:
        return x_.template launch<4>(count * 4, run);
      case 16:
        return x_.template launch<16>(count * 16, run);
      default:
        return x_.template launch<8>(count * 8, run);
    }
  }

  X& x_;
  PoolTable& table_;
  const RequestsRef requests_;
  exec::Array<std::uint32_t> left_;
  exec::Array<std::uint32_t> next_left_;
  exec::Array<std::uint64_t> left_count_;
};

}  // namespace breccia::slab
