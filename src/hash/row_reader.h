#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/memory.h"
#include "exec/executor.h"
#include "hash/algo/clear.cuh"
#include "hash/algo/logged.cuh"
#include "hash/ids.h"

namespace breccia::hash {

/// Rows that kernels did not find in what they read of a log.
struct Unread {
  exec::Array<std::uint32_t> request;
  exec::Array<std::uint64_t> payload;
};

/// Reads rows from a log by kernels, while cores gather others: they take a dozen times as many,
/// but these come besides.
/// Threads one owner.
template <class X>
class Reader {
 public:
  Reader(X& x, const algo::LoggedRow& logged, const RowsOutRef& to)
      : x_(x), logged_(logged), to_(to) {}
  ~Reader() { (void)x_.finish(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// For up to so many rows.
  Status prepare(std::uint64_t rows) {
    if (logged_.log.count == 0 || rows < kRowsMin) return Status::OK();
    // Where there is no memory, the cores bring all.
    auto request = exec::make_array<std::uint32_t>(x_, rows);
    auto payload = exec::make_array<std::uint64_t>(x_, rows);
    auto count = exec::make_array<std::uint64_t>(x_, 1);
    if (!request.ok() || !payload.ok() || !count.ok()) return Status::OK();
    unread_ = {request.take(), payload.take()};
    unread_count_ = count.take();
    return algo::clear(x_, unread_count_.data(), 1);
  }
  /// If it has nothing to do, it takes rows from the end of [begin, *end) and lowers that.
  Status read_some(const MissingRef& missing, std::uint64_t begin, std::uint64_t* end) {
    const std::uint64_t n = std::min(kRowsAtOnce, (*end - begin) / 2);
    if (unread_count_.data() == nullptr || n < kRowsMin || !x_.is_idle()) return Status::OK();
    *end -= n;
    const auto words = static_cast<std::uint32_t>(to_.row_bytes / sizeof(std::uint64_t));
    const std::uint64_t groups = std::min(n, algo::ReadLogged::kGroupsMax);
    const MissingRef unread{unread_.request.data(), unread_.payload.data(), unread_count_.data()};
    return x_.template launch<8>(8 * groups,
                                 algo::ReadLogged{.logged = logged_,
                                                  .payload = missing.payload + *end,
                                                  .request = missing.request + *end,
                                                  .count = n,
                                                  .groups = groups,
                                                  .row = reinterpret_cast<std::uint64_t*>(to_.row),
                                                  .found = to_.found,
                                                  .words = words,
                                                  .unread = unread});
  }
  /// Waits; *count rows are in *unread then.
  Status finish(Unread* unread, std::uint64_t* count) {
    *count = 0;
    if (unread_count_.data() == nullptr) return Status::OK();
    BRECCIA_TRY(x_.copy_out(count, unread_count_.data(), 1));
    BRECCIA_TRY(x_.finish());
    *unread = std::move(unread_);
    return Status::OK();
  }

 private:
  /// A millisecond's work, or a few if others read, too.
  static constexpr std::uint64_t kRowsAtOnce = 32 << 10;
  static constexpr std::uint64_t kRowsMin = 4;

  X& x_;
  const algo::LoggedRow logged_;
  const RowsOutRef to_;
  Unread unread_;
  exec::Array<std::uint64_t> unread_count_;
};

}  // namespace breccia::hash
