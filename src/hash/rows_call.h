#pragma once

#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "hash/algo/rows.cuh"
#include "hash/call.h"
#include "hash/grace.h"
#include "hash/rows.h"

namespace breccia::hash {

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
    BRECCIA_TRY(exec::clear(x_, free_count_.data(), 1));
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

}  // namespace breccia::hash
