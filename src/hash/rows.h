#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "exec/executor.h"
#include "hash/algo/rows.cuh"
#include "hash/grace.h"

namespace breccia::hash {

/// The widest words by which values can be copied between rows and columns: call(null, words a
/// value).
template <class Call>
Status with_row_words(const algo::RowShape& shape, std::initializer_list<const void*> columns,
                      const Call& call) {
  const bool is_wide =
      (shape.value_words | shape.key_words | shape.words) % 2 == 0 &&
      std::all_of(columns.begin(), columns.end(), [](const void* column) {
        return reinterpret_cast<std::uintptr_t>(column) % sizeof(exec::WordPair) == 0;
      });
  return is_wide ? call(static_cast<const exec::WordPair*>(nullptr), shape.value_words / 2)
                 : call(static_cast<const std::uint64_t*>(nullptr), shape.value_words);
}

/// Rows for a table's values, and its keys. A batch takes as many as it may need from the front of
/// a queue and puts behind it what it left, when nobody can look at that any more: no atomics, no
/// search.
///
/// Of `count` numbers each is in the queue, with a batch, in limbo, or in a slot. Those with a
/// batch stay where they were in the ring, and nothing comes upon them: while it is under way,
/// nothing given after it began is put there, so each number at most once, `count` in all.
/// Threads any.
class Rows {
 public:
  /// Errors  MemoryLimit.
  template <class X>
  static Result<std::unique_ptr<Rows>> make(X& x, const algo::RowShape& shape,
                                            std::uint64_t count) {
    BRECCIA_ASSERT(shape.words > 0 && count < std::uint64_t{1} << 32);
    auto rows = std::unique_ptr<Rows>(new Rows(shape, count));
    BRECCIA_TAKE(rows->bytes_, exec::make_array<char>(x, shape.bytes() * count));
    BRECCIA_TAKE(rows->ring_, exec::make_array<std::uint32_t>(x, count));
    BRECCIA_TRY(x.template launch<32>(count, algo::FreeAll{rows->ref()}));
    BRECCIA_TRY(x.finish());
    return Result<std::unique_ptr<Rows>>(std::move(rows));
  }

  [[nodiscard]] algo::RowsRef ref() const { return {bytes_.data(), shape_, ring_.data(), count_}; }
  [[nodiscard]] const algo::RowShape& shape() const { return shape_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t all = bytes_.bytes() + ring_.bytes();
    for (const Limbo& limbo : limbo_) all += limbo.rows.bytes();
    return all;
  }
  [[nodiscard]] Grace& grace() { return grace_; }

  /// Rows that are free now or will be when calls that are under way have ended.
  [[nodiscard]] std::uint64_t free() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t all = end_ - begin_;
    for (const Limbo& limbo : limbo_) all += limbo.count;
    return all;
  }

  /// Takes rows; returns the place of the first in the ring.
  /// Errors  MemoryLimit: there are not so many.
  template <class X>
  Result<std::uint64_t> take(X& x, std::uint64_t rows) {
    const std::lock_guard lock(mutex_);
    BRECCIA_TRY(collect(x));
    if (end_ - begin_ < rows) return Status::MemoryLimit("the table's rows are all in use");
    return std::exchange(begin_, begin_ + rows);
  }
  /// Puts back what the last take() gave, as nothing could be done with it. Where others have taken
  /// some since, the rows are lost until the table ends.
  void untake(std::uint64_t begin, std::uint64_t rows) {
    const std::lock_guard lock(mutex_);
    if (begin_ == begin + rows) begin_ = begin;
  }
  /// Gives rows back that others may still look at, and makes those free at which nobody looks now.
  template <class X>
  Status give(X& x, exec::Array<std::uint32_t> rows, std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    if (count > 0) limbo_.push_back({std::move(rows), count, grace_.moment()});
    return collect(x);
  }

 private:
  struct Limbo {
    exec::Array<std::uint32_t> rows;
    std::uint64_t count;
    std::uint64_t since;
  };

  Rows(const algo::RowShape& shape, std::uint64_t count)
      : shape_(shape), count_(count), end_(count) {}

  template <class X>
  Status collect(X& x) {
    while (!limbo_.empty() && grace_.is_over(limbo_.front().since)) {
      const Limbo& limbo = limbo_.front();
      BRECCIA_ASSERT(end_ - begin_ + limbo.count <= count_);
      BRECCIA_TRY(x.template launch<32>(
          limbo.count, algo::Enqueue{ref(), limbo.rows.data(), limbo.count, end_}));
      BRECCIA_TRY(x.finish());
      end_ += limbo.count;
      limbo_.pop_front();
    }
    return Status::OK();
  }

  const algo::RowShape shape_;
  const std::uint64_t count_;
  exec::Array<char> bytes_;
  exec::Array<std::uint32_t> ring_;
  Grace grace_;
  mutable std::mutex mutex_;  // guards what follows, and the ring between begin_ and end_
  std::uint64_t begin_ = 0;   // places only grow; the ring's place is the remainder
  std::uint64_t end_;
  std::deque<Limbo> limbo_;  // what was given first, first
};

}  // namespace breccia::hash
