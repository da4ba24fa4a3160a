#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/memory.h"
#include "exec/executor.h"
#include "hash/combine.h"
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
    if (table_.note_requests(requests_.count)) {
      BRECCIA_TRY(in_section([&] { return table_.move_heads(x_); }));
    }
    if (only_finds(requests_)) {
      const std::shared_lock lock(table_.mutex());
      BRECCIA_TRY(table_.fault());
      BRECCIA_TRY(launch(requests_, nullptr, requests_.count, {}));
      return x_.finish();
    }
    BRECCIA_TRY(allocate());
    for (std::uint64_t begin = 0; begin < requests_.count;) {
      std::uint64_t count = 0;
      BRECCIA_TRY(prepare(requests_.count - begin, &count));
      BRECCIA_TRY(change(part_of(requests_, begin, count)));
      begin += count;
    }
    return Status::OK();
  }

 private:
  /// Buckets that a batch adds at least, where there are too few.
  static constexpr std::uint64_t kAddedMin = 256;
  static constexpr std::uint64_t kTold = 1 + Counters::kWords;
  static constexpr int kMoreTries = 8;

  Status allocate() {
    for (exec::Array<std::uint32_t>* column : {&left_, &next_left_}) {
      BRECCIA_TAKE(*column, exec::make_array<std::uint32_t>(x_, requests_.count));
    }
    BRECCIA_TAKE(told_, exec::make_array<std::uint64_t>(x_, kTold));
    return Status::OK();
  }

  static RequestsRef part_of(RequestsRef requests, std::uint64_t begin, std::uint64_t count) {
    if (requests.operation != nullptr) requests.operation += begin;
    if (requests.value != nullptr) requests.value += begin;
    if (requests.found != nullptr) requests.found += begin;
    requests.key += begin;
    requests.code += begin;
    requests.count = count;
    return requests;
  }

  /// work() with the table for itself. What fails in it is the end of the table, but for memory.
  template <class Work>
  Status in_section(const Work& work) {
    const std::unique_lock section(table_.mutex());
    BRECCIA_TRY(table_.fault());
    Status status = work();
    if (!status.ok() && !status.IsMemoryLimit()) table_.note_fault(status);
    return status;
  }

  /// Before `left` requests: splits buckets if there are too few. *count: how many may run at once.
  Status prepare(std::uint64_t left, std::uint64_t* count) {
    bool is_crowded = false;
    {
      const std::shared_lock lock(table_.mutex());
      is_crowded = table_.is_crowded();
      *count = std::min(left, table_.piece_max());
    }
    if (!is_crowded) return Status::OK();
    const std::uint64_t buckets = std::max(kAddedMin, *count);
    const Status added = in_section([&] {
      BRECCIA_TRY(table_.add_buckets(x_, buckets));
      *count = std::min(left, table_.piece_max());
      return Status::OK();
    });
    // Longer chains do, too, and pieces before this one are done.
    return added.IsMemoryLimit() ? Status::OK() : base::copy_of(added);
  }

  Status change(const RequestsRef& part) {
    std::uint64_t left = 0;
    BRECCIA_TRY(run_some(part, nullptr, part.count, &left));
    while (left > 0) {
      Status room = in_section([&] { return table_.make_room(x_, 1); });
      if (room.IsMemoryLimit()) return Status::OK();  // these say so
      BRECCIA_TRY(std::move(room));
      BRECCIA_TRY(run_some(part, left_.data(), left, &left));
    }
    return Status::OK();
  }

  /// Runs all requests, or those of a list; the *left that found no room are in left_ then.
  Status run_some(const RequestsRef& part, const std::uint32_t* list, std::uint64_t count,
                  std::uint64_t* left) {
    const std::shared_lock lock(table_.mutex());
    BRECCIA_TRY(table_.fault());
    if (may_delete(part)) table_.note_deletions();
    Status status = run_and_list(part, list, count, left);
    // Nobody may take it for a batch that was not run.
    if (status.IsMemoryLimit()) status = base::io_error("memory ran out in mid-batch");
    if (!status.ok()) table_.note_fault(status);
    return status;
  }
  Status run_and_list(const RequestsRef& part, const std::uint32_t* list, std::uint64_t count,
                      std::uint64_t* left) {
    *left = 0;
    Counters counters;
    bool is_crowded = false;
    BRECCIA_TRY(
        launch_and_count(part, list, count, table_.options().tries_max, &counters, &is_crowded));
    if (is_crowded) {
      BRECCIA_TRY(run_crowded(part, list, count));
      BRECCIA_TRY(table_.count(x_, &counters));
    }
    if (!table_.was_short(counters)) return Status::OK();
    BRECCIA_TRY(list_with(Code::kNoRoom, part, list, count, left));
    std::swap(left_, next_left_);
    return Status::OK();
  }

  /// Runs them so patiently, with one wait for what was counted and whether some gave up.
  Status launch_and_count(const RequestsRef& part, const std::uint32_t* list, std::uint64_t count,
                          int tries, Counters* counters, bool* is_crowded) {
    std::uint64_t* const crowded = told_.data();
    BRECCIA_TRY(exec::clear(x_, crowded, 1));
    BRECCIA_TRY(launch(part, list, count, {crowded, tries}));
    std::uint64_t told[kTold] = {};
    BRECCIA_TRY(x_.copy(crowded + 1, table_.counters(), Counters::kWords));
    BRECCIA_TRY(x_.copy_out(told, told_.data(), kTold));
    BRECCIA_TRY(x_.finish());
    *is_crowded = told[0] != 0;
    std::copy(told + 1, told + kTold, counters->word);
    table_.note_counted(*counters);
    return Status::OK();
  }

  /// Runs those that gave up: few have met by chance, and get on if they try for longer.
  Status run_crowded(const RequestsRef& part, const std::uint32_t* list, std::uint64_t count) {
    std::uint64_t crowded = 0;
    BRECCIA_TRY(list_with(Code::kCrowded, part, list, count, &crowded));
    // Where they are few beside the others, sorting them takes longer than they would.
    constexpr std::uint64_t kOneInMany = 1024;
    if (crowded < std::max(table_.options().combined_min, count / kOneInMany)) {
      Counters counters;
      bool is_crowded = false;
      BRECCIA_TRY(launch_and_count(part, next_left_.data(), crowded,
                                   table_.options().tries_max + kMoreTries, &counters,
                                   &is_crowded));
      if (!is_crowded) return Status::OK();
      BRECCIA_TRY(list_with(Code::kCrowded, part, list, count, &crowded));
    }
    return hash::combine<1>(x_, part, next_left_.data(), crowded,
                            algo::WordsOf{table_.options().secret}, hash::algo::WordKeys(),
                            [&](const std::uint32_t* leaders, std::uint64_t n) {
                              return launch(part, leaders, n, {});
                            });
  }

  /// The *with requests that were answered so come to next_left_.
  Status list_with(Code code, const RequestsRef& part, const std::uint32_t* list,
                   std::uint64_t count, std::uint64_t* with) {
    using hash::algo::ListOverflow;
    BRECCIA_TRY(exec::clear(x_, told_.data(), 1));
    BRECCIA_TRY(x_.template launch<32>(
        ListOverflow::items(count),
        ListOverflow{part, list, count, code, {next_left_.data(), told_.data()}}));
    BRECCIA_TRY(x_.copy_out(with, told_.data(), 1));
    return x_.finish();
  }

  /// A group for each request, as wide as the table says.
  Status launch(const RequestsRef& requests, const std::uint32_t* list, std::uint64_t count,
                const hash::algo::Patience& patience) {
    const algo::Run run{table_.ref(), requests, list, patience};
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
  exec::Array<std::uint64_t> told_;  // one figure, or whether some gave up and the counters
};

}  // namespace breccia::slab
