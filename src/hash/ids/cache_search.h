#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "exec/executor.h"
#include "exec/pool.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/ids.cuh"
#include "hash/algo/rows.cuh"
#include "hash/ids/ids.h"
#include "hash/rows.h"

namespace breccia::hash {

/// What kernels do of a lookup of rows by themselves: ids become numbers, numbers payloads, and
/// payloads the rows that a cache has. It outlasts what it launches.
class CacheSearch {
 public:
  /// Errors  MemoryLimit.
  template <class X>
  static Result<CacheSearch> make(X& x, const RowsOutRef& out) {
    CacheSearch search(out);
    for (exec::Array<std::uint64_t>* const column :
         {&search.number_, &search.payload_, &search.row_, &search.missing_payload_}) {
      BRECCIA_TAKE(*column, exec::make_array<std::uint64_t>(x, search.count()));
    }
    BRECCIA_TAKE(search.code_, exec::make_array<Code>(x, search.count()));
    BRECCIA_TAKE(search.request_, exec::make_array<std::uint32_t>(x, search.count()));
    BRECCIA_TAKE(search.counts_, exec::make_array<algo::LookupCounts>(x, 1));
    return Result<CacheSearch>(std::move(search));
  }

  [[nodiscard]] std::uint64_t count() const { return out_.ids.count; }

  /// Launches what makes numbers of ids.
  template <class X>
  Status launch_numbers(X& x) const {
    return x.template launch<32>(count(), algo::NumberIds{out_.ids.id, number_.data(), count(),
                                                          counts_.data(), out_.ids.asked});
  }
  /// What finds their payloads, in a table.
  [[nodiscard]] RequestsRef requests() const {
    return {
        .key = number_.data(), .found = payload_.data(), .code = code_.data(), .count = count()};
  }
  /// Launches what follows that. Who is in a section of the cache waits for it.
  template <class X>
  Status launch_rows(X& x, const CacheRef& cache) const {
    BRECCIA_TRY(x.template launch<32>(
        count(),
        algo::FindCached{cache,
                         out_.ids.id,
                         payload_.data(),
                         count(),
                         row_.data(),
                         code_.data(),
                         out_.found,
                         {request_.data(), missing_payload_.data(), &counts_.data()->missing},
                         asked()}));
    if (cache.set_count == 0) return Status::OK();
    const algo::RowsRef rows{.bytes = cache.rows, .shape = algo::RowShape::of(0, out_.row_bytes)};
    return with_row_words(
        rows.shape, {out_.row}, [&]<class Word>(const Word*, std::uint32_t words) {
          return x.template launch<32>(
              count() * words,
              algo::GetRows<Word>::of(rows, row_.data(), code_.data(), out_.row, count()));
        });
  }

  /// In the backend's memory, behind launch_numbers(): how many of the ids count.
  [[nodiscard]] const std::uint64_t* asked() const { return &counts_.data()->asked; }
  /// Payloads of all of them, in the backend's memory, behind what finds them.
  [[nodiscard]] const std::uint64_t* payload() const { return payload_.data(); }

  // ---- what has a payload, but no row in the cache, in the backend's memory ----

  /// One number: how many they are.
  [[nodiscard]] const std::uint64_t* missing_count() const { return &counts_.data()->missing; }
  [[nodiscard]] const std::uint64_t* missing_payload() const { return missing_payload_.data(); }
  /// Whose they are.
  [[nodiscard]] const std::uint32_t* missing_request() const { return request_.data(); }

 private:
  explicit CacheSearch(const RowsOutRef& out) : out_(out) {}

  RowsOutRef out_;
  exec::Array<std::uint64_t> number_, payload_, row_, missing_payload_;
  exec::Array<algo::LookupCounts> counts_;
  exec::Array<Code> code_;
  exec::Array<std::uint32_t> request_;
};

}  // namespace breccia::hash
