#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/executor.h"
#include "exec/host_vector.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/keys.cuh"
#include "hash/call.h"
#include "hash/ids/cache_search.h"
#include "hash/ids/ids.h"
#include "hash/ids/row_cache.h"
#include "hash/ids/row_courier.h"
#include "hash/pool_table.h"
#include "hash/rows.h"

namespace breccia::hash {

/// Looks rows up: those in a cache on the device, and the others from the host, where cores gather
/// one piece while the bus brings the other.
template <class Tenant>
class PoolRowLookup : public RowLookup {
 public:
  /// `cache` may be null.
  PoolRowLookup(Tenant& tenant, PoolCache* cache, const RowsOutRef& out)
      : tenant_(tenant),
        cache_(cache),
        out_(out),
        missing_(host_memory()),
        missing_payloads_(host_memory()) {}

  Status look(Table& table) override {
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_TRY(own.fault());
    BRECCIA_TAKE(auto x, tenant_.executor());
    BRECCIA_TAKE(search_, CacheSearch::make(*x, out_));
    missing_.clear();
    missing_payloads_.clear();
    if (!missing_.reserve(1)) {
      return Status::MemoryLimit("no memory for what a batch looks up");
    }
    *missing_.extend(1) = 0;
    BRECCIA_TRY(x->follow(out_.ids.stream));
    BRECCIA_TRY(search_->launch_numbers(*x));
    std::shared_lock<base::SectionMutex> lock;
    CacheRef cache;
    if (cache_ != nullptr) {
      lock = std::shared_lock(cache_->mutex());
      cache = cache_->ref();
    }
    const Status looked = Call(*x, own, search_->requests(), algo::WordKeys()).find([&] {
      BRECCIA_TRY(search_->launch_rows(*x, cache));
      return x->copy_out(missing_.data(), search_->missing_count(), 1);
    });
    if (!looked.ok()) {
      (void)x->finish();  // what was launched before it
      return base::copy_of(looked);
    }
    BRECCIA_ASSERT(missing() <= count());
    return Status::OK();
  }

  Status bring(const Gather& gather) override {
    if (cache_ != nullptr) cache_->note(count(), count() - missing());
    if (missing() == 0) return Status::OK();
    BRECCIA_TAKE(auto x, tenant_.executor());
    BRECCIA_TRY(bring_missing(*x, gather));
    return cache_ == nullptr ? Status::OK() : admit(*x);
  }

 protected:
  [[nodiscard]] std::uint64_t count() const { return out_.ids.count; }
  [[nodiscard]] algo::RowShape shape() const { return algo::RowShape::of(0, out_.row_bytes); }
  [[nodiscard]] const CacheSearch& search() const { return *search_; }
  [[nodiscard]] const std::uint64_t* ids() const { return out_.ids.id; }
  /// Before look().
  void put_rows_to(char* row, std::uint8_t* found) {
    out_.row = row;
    out_.found = found;
  }
  /// Behind look().
  template <class X>
  Status bring_missing(X& x, const Gather& gather) {
    if (missing() == 0) return Status::OK();
    BRECCIA_TRY(fetch_missing(x));
    return bring_all(x, gather);
  }

 private:
  [[nodiscard]] exec::HostMemory& host_memory() { return tenant_.device().host_memory(); }
  [[nodiscard]] std::uint64_t missing() const { return missing_[0]; }

  template <class X>
  Status fetch_missing(X& x) {
    if (!missing_payloads_.reserve(missing())) {
      return Status::MemoryLimit("no memory for what a batch looks up");
    }
    BRECCIA_TRY(
        x.copy_out(missing_payloads_.extend(missing()), search_->missing_payload(), missing()));
    return x.finish();
  }

  template <class X>
  Status bring_all(X& x, const Gather& gather) {
    const std::uint64_t piece = std::max<std::uint64_t>(kPieceBytes / out_.row_bytes, 1);
    if constexpr (X::kIsAsync) {
      if (missing() > piece) {
        auto other = tenant_.executor();
        if (other.ok()) return bring_by(&x, &*other.value(), piece, gather);
      }
    }
    return bring_by(&x, &x, piece, gather);
  }

  /// While one brings a piece, the next one is gathered for the other.
  template <class X>
  Status bring_by(X* one, X* other, std::uint64_t piece, const Gather& gather) {
    const std::uint64_t* const payload = missing_payloads_.data();
    Courier<X> first(*one, host_memory());
    Courier<X> second(*other, host_memory());
    Courier<X>* const couriers[] = {&first, &second};
    for (std::uint64_t begin = 0, turn = 0; begin < missing(); begin += piece, turn = 1 - turn) {
      const std::uint64_t n = std::min(piece, missing() - begin);
      Courier<X>& courier = *couriers[turn];
      BRECCIA_TRY(courier.load(n, out_.row_bytes));
      gather({payload + begin, n}, courier.rows(), courier.there());
      BRECCIA_TRY(courier.send(search_->missing_request() + begin, out_));
    }
    BRECCIA_TRY(first.finish());
    return one == other ? Status::OK() : second.finish();
  }

  template <class X>
  Status admit(X& x) {
    const std::optional<Section> section = cache_->section_to_admit();
    if (!section.has_value()) return Status::OK();
    const CacheRef cache = cache_->ref();
    if (cache.set_count == 0) return Status::OK();
    const exec::Finish finish(x);
    BRECCIA_TRY(cache_->let_go(x));
    cache_->note_offered(missing());
    BRECCIA_TRY(
        with_row_words(shape(), {out_.row}, [&]<class Word>(const Word*, std::uint32_t words) {
          return x.template launch<32>(
              missing(),
              algo::Admit<Word>{cache, out_.ids.id, search_->missing_payload(),
                                search_->missing_request(), missing(),
                                reinterpret_cast<const Word*>(out_.row), out_.found, words});
        }));
    return x.finish();
  }

  /// Each is a loop of all cores, which begins and ends slowly where others run, too.
  static constexpr std::uint64_t kPieceBytes = 64 << 20;

  Tenant& tenant_;
  PoolCache* const cache_;
  RowsOutRef out_;
  std::optional<CacheSearch> search_;
  exec::HostVector<std::uint64_t> missing_;  // one number
  exec::HostVector<std::uint64_t> missing_payloads_;
};

}  // namespace breccia::hash
